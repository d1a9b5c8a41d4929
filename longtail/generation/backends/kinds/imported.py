"""No model is loaded: the answers come from files."""

from __future__ import annotations

from longtail.study.backends import UNKNOWN, Backend

BACKEND = Backend(
    None,
    frozenset(),
    frozenset({"results"}),
    needs="results",
    because="names the files of its answers",
    dtypes=(UNKNOWN,),
    dtype=UNKNOWN,
)
