"""What measuring confidence costs on a CPU: the part of the processor's time that greedy answers spend on it.

The functions that do nothing else are timed. Rounds with and without them would differ by more than what is measured,
if other work runs beside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

from benchmarks.harness import table
from longtail.generation.backends.base import Backend, Decoding, Generation
from longtail.generation.backends.local import batches, decoding


def confidence_overhead(backend: Backend, prompts: Sequence[str], new_tokens: int) -> float:
    """Processor seconds for confidence, divided by all others of the same answers."""
    spent = [0.0]

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            started = time.process_time()
            result = function(*arguments)
            spent[0] += time.process_time() - started
            return result

        return run

    backend.forget()
    with (
        mock.patch.object(decoding, "token_scores", timed(decoding.token_scores)),
        mock.patch.object(batches, "confidence_of_text", timed(batches.confidence_of_text)),
    ):
        started = time.process_time()
        made = backend.generate(prompts, Decoding(new_tokens))
        total = time.process_time() - started
    n_known = sum(isinstance(one, Generation) and one.confidence is not None for one in made)
    overhead = spent[0] / (total - spent[0])
    table(
        "Confidence of greedy answers, on the CPU",
        ("answers", "with confidence", "processor seconds", "for confidence", "more time"),
        [(len(made), n_known, f"{total:.2f}", f"{spent[0]:.3f}", f"{overhead:.2%}")],
    )
    return overhead
