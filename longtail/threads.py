"""Threads: how many numeric libraries may use, and work that several do side by side."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from longtail.errors import LongtailError

Item = TypeVar("Item")
Result = TypeVar("Result")


def thread_count() -> int:
    """`$LONGTAIL_THREADS`, else `$OMP_NUM_THREADS`, else the number of cores that this process may use.

    Errors: `LongtailError` where the first is no number of threads. OpenMP's own may be a list, which is ignored.
    """
    for name in ("LONGTAIL_THREADS", "OMP_NUM_THREADS"):
        asked = os.environ.get(name, "").strip()
        if asked.isdecimal() and int(asked) > 0:
            return int(asked)
        if asked and name == "LONGTAIL_THREADS":
            raise LongtailError(f"{name}: {asked!r} is not a number of threads, 1 or more")
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    threads: int,
    make_pool: Callable[[int], Executor] = ThreadPoolExecutor,
) -> Iterator[Result]:
    """`function` of each item in order, in `threads` threads; the first error stops everything and drops the rest.

    The pool has ended when this ends: a pool of processes leaves none behind.
    """
    source = iter(items)
    with make_pool(threads) as pool:
        running: deque[Future[Result]] = deque(
            pool.submit(function, item) for item in islice(source, 2 * threads)
        )
        try:
            while running:
                result = running.popleft().result()
                running.extend(pool.submit(function, item) for item in islice(source, 1))
                yield result
        finally:
            pool.shutdown(cancel_futures=True)
