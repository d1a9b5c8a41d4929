"""Several requests or computations at once, with results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(
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
            pool.submit(function, item) for item in islice(source, 4 * threads)
        )
        try:
            while running:
                result = running.popleft().result()
                running.extend(pool.submit(function, item) for item in islice(source, 1))
                yield result
        finally:
            pool.shutdown(cancel_futures=True)
