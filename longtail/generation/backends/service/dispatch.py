"""When each row is asked: a bounded number at once, within the budget, each result handed on as it comes.

Until the service has answered once, one row goes at a time: a wrong key, path or price then shows in one request, not
in as many as may run at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from longtail.generation.backends.base import Postponed
from longtail.generation.backends.service.asking import NO_BUDGET, Asker, Call, Result
from longtail.generation.backends.service.wire import Post


@dataclass(frozen=True)
class Rows:
    """Prompts, their seeds (None: greedy) and names; prompts are taken one by one, each once."""

    prompts: Sequence[str]
    seeds: Sequence[Sequence[int]] | None
    names: Sequence[str]

    def seeds_of(self, index: int) -> Sequence[int] | None:
        return None if self.seeds is None else self.seeds[index]

    def post(self, index: int, call: Call) -> Post:
        """The first request of a row."""
        seeds = self.seeds_of(index)
        n, first = (1, None) if seeds is None else (len(seeds), next(iter(seeds), None))
        return Post(self.prompts[index], call.decoding, n, first)


def dispatch(
    asker: Asker, pool: ThreadPoolExecutor, width: int, rows: Rows, call: Call
) -> Iterator[tuple[int, Result]]:
    """Each row's index and result. Errors: `BackendError` once all that was under way has been handed on.

    The same holds for Ctrl-C and an ended run, as the requests under way are paid for. A second Ctrl-C ends at once.
    """
    flying: dict[Future[Result], int] = {}
    end: BaseException | None = None
    waiting = ((i, rows.post(i, call)) for i in range(len(rows.prompts)))
    head = next(waiting, None)
    try:
        while flying or (head and end is None):
            while head and end is None and len(flying) < (width if asker.has_answered else 1):
                index, post = head
                if not post.n:
                    yield index, []
                elif (purchase := asker.purchase(post, call)).set_aside():
                    seeds, name = rows.seeds_of(index), rows.names[index]
                    flying[pool.submit(asker.ask, post.prompt, seeds, name, call, purchase)] = index
                elif flying:
                    break  # what is under way may cost less than was set aside for it
                else:
                    yield index, Postponed(NO_BUDGET)
                head = next(waiting, None)
            try:
                done = wait(flying, return_when=FIRST_COMPLETED).done
            except BaseException as interruption:
                if end is not None:
                    raise
                end = interruption
                call.stop.set()
                continue
            for future in done:
                index, failed = flying.pop(future), future.exception()
                if failed is None:
                    yield index, future.result()
                else:
                    end = end or failed
                    call.stop.set()
    finally:
        call.stop.set()
        wait(flying)
    if end is not None:
        raise end
