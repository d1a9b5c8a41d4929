"""Some of the hostile files, each through the door that a user's file takes; `tools.hostile_files` tries them all."""

from __future__ import annotations

import pytest

from tools.hostile_files.__main__ import try_case
from tools.hostile_files.cases import CASES

REFUSED = (
    "table: a pipe",
    "parquet: data of noise",
    "parquet: a footer of 2 GB",
    "answers: inspect: paths that climb",
    "model: gguf: a list of 2^60 numbers",
    "model: gguf: lists nested 10,000 deep",
    "model: gguf: a pipe",
    "model: a path that climbs: package:os/../../../etc/passwd",
    "model: a pickle as pytorch_model.bin",
    "portrait: a header of huge numbers",
)
PUT_ASIDE = (
    "table: JSON lines: nested 100,000 deep",
    "pararel: a pattern without [Y]",
    "dpr: NUL and controls",
)


@pytest.mark.parametrize(
    ("name", "outcome"), [(n, "refused") for n in REFUSED] + [(n, "put aside") for n in PUT_ASIDE]
)
def test_a_hostile_file_is_refused_or_put_aside_in_one_line(name: str, outcome: str) -> None:
    (case,) = (case for case in CASES if case.name == name)
    tried = try_case(case)
    assert tried.outcome == outcome, tried.said
