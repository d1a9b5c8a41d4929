"""How many threads numeric libraries may use: one setting for torch, faiss and the rest."""

from __future__ import annotations

import os


def thread_count() -> int:
    """`$LONGTAIL_THREADS`, or the number of cores that this process may use."""
    asked = os.environ.get("LONGTAIL_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
