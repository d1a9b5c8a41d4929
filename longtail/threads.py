"""How many threads numeric libraries may use: one setting for torch, faiss and others."""

from __future__ import annotations

import os


def thread_count() -> int:
    """`$LONGTAIL_THREADS`, else `$OMP_NUM_THREADS`, else the number of cores that this process may use."""
    for name in ("LONGTAIL_THREADS", "OMP_NUM_THREADS"):
        asked = os.environ.get(name, "")
        if asked.isdecimal() and int(asked) > 0:
            return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
