"""Compares Longtail with its peers on a CUDA device, with the shapes of large models and random weights.

With random weights texts have no meaning, and near-ties are common in bf16. The share of equal answers is printed, and
it must be at least `EQUAL` before a time counts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Contestant, race, say, spread, table
from benchmarks.peers import NEW_TOKENS, Harness, Transformers
from benchmarks.prompts import fifteen_shot, sandbox_questions
from benchmarks.shapes import NEOX_20B, OPT_6_7B, TINY, Shape, peaks_of, write_model
from longtail.generation.backends.base import Decoding, Generation, load_backend
from longtail.generation.prompts.endings import cut_answer
from longtail.study.models import Model

EQUAL = {"bfloat16": 0.5, "float32": 0.998}
_LOOPED = 24
_BATCH_SIZE = 32
_BATCH_TOKENS = 65_536


def race_on(device: str, rounds: int, *, every: int, tiny: bool, harness: bool) -> dict[str, float | None]:
    """All shapes, one after the other; returns the lowest of each number over shapes. `every`: every n-th question."""
    found: list[dict[str, float]] = []
    for shape in (TINY,) if tiny else (OPT_6_7B, NEOX_20B):
        dtype = "float32" if tiny else "bfloat16"
        with tempfile.TemporaryDirectory(prefix="longtail-bench-") as folder:
            found.append(_race(shape, Path(folder), device, dtype, rounds, every, harness))
    names = sorted({name for figures in found for name in figures})
    return {name: min(figures[name] for figures in found if name in figures) for name in names}


def _race(
    shape: Shape, folder: Path, device: str, dtype: str, rounds: int, every: int, with_harness: bool
) -> dict[str, float]:
    say(f"{shape.name}: writing random weights …")
    n_parameters = write_model(shape, folder, device, dtype)
    questions = sandbox_questions()[::every]
    shared, own = fifteen_shot(questions, "per_relation"), fifteen_shot(questions, "per_question")
    peer = Transformers(folder, device, dtype)
    backend = load_backend(
        Model(name="random", path=str(folder), dtype=dtype, device=device, batch_tokens=_BATCH_TOKENS)
    )
    few = slice(0, len(shared), max(1, len(shared) // _LOOPED))
    reference = {"per_relation": peer.loop(shared[few]), "per_question": peer.loop(own[few])}
    contestants = [
        Contestant("Longtail, per_relation", lambda: _answers(backend, shared), len(shared)),
        Contestant("Longtail, per_question", lambda: _answers(backend, own), len(own)),
        Contestant("one prompt at a time, per_relation", lambda: peer.loop(shared[few]), len(shared[few])),
        Contestant("one prompt at a time, per_question", lambda: peer.loop(own[few]), len(own[few])),
        Contestant("continuous batching, per_relation", lambda: peer.continuous(shared), len(shared)),
        Contestant("padded batches, per_relation", lambda: peer.batched(shared, _BATCH_SIZE), len(shared)),
    ]
    if with_harness:
        harness = Harness(folder, device, dtype, _BATCH_SIZE)
        contestants.append(
            Contestant("lm-evaluation-harness, per_relation", lambda: harness.answer(shared), len(shared))
        )
    race(contestants, rounds, _checker(reference, few, EQUAL[dtype]))
    rates = {c.name: c.n / c.median for c in contestants}
    table(
        f"{shape.name}, RANDOM WEIGHTS ({n_parameters / 1e9:.1f} billion, {dtype}, {device}): {NEW_TOKENS} new tokens",
        ("contestant", "prompts", "prompts per second", "spread, seconds"),
        [(c.name, c.n, f"{rates[c.name]:.1f}", spread(c)) for c in contestants],
    )
    figures: dict[str, float] = {
        "gpu_loop_ratio": rates["Longtail, per_relation"] / rates["one prompt at a time, per_relation"],
        "gpu_loop_ratio_per_question": rates["Longtail, per_question"]
        / rates["one prompt at a time, per_question"],
        "gpu_continuous_ratio": rates["Longtail, per_relation"] / rates["continuous batching, per_relation"],
        "gpu_batched_ratio": rates["Longtail, per_relation"] / rates["padded batches, per_relation"],
    }
    figures |= _near_the_limits(backend, own, n_parameters, device)
    backend.close()
    return figures


def _answers(backend: Any, prompts: Sequence[str]) -> list[str]:
    backend.forget()  # no round profits from the previous one
    made = backend.generate(prompts, Decoding(NEW_TOKENS))
    return [cut_answer(one.text) if isinstance(one, Generation) else one.reason for one in made]


def _checker(
    reference: dict[str, list[str]], few: slice, least: float
) -> Callable[[str, Sequence[Any]], None]:
    def check(name: str, made: Sequence[Any]) -> None:
        expected = reference["per_question" if name.endswith("per_question") else "per_relation"]
        compared = list(made) if len(made) == len(expected) else list(made)[few]
        equal = sum(a.strip() == b.strip() for a, b in zip(compared, expected, strict=True)) / len(expected)
        say(f"{name}: {equal:.1%} of {len(expected)} compared answers equal the loop's")
        if equal < least:
            raise SystemExit(f"error: {name}: only {equal:.1%} of its answers equal the loop's")

    return check


def _near_the_limits(backend: Any, prompts: list[str], n_parameters: int, device: str) -> dict[str, float]:
    """Share of the chip's bf16 peak in prefill (no prompt shared), and of its memory bandwidth in decoding 8 rows."""
    import torch

    peaks = peaks_of(torch.cuda.get_device_name(device)) if device.startswith("cuda") else None
    if peaks is None:
        return {}
    n_bytes = 2 * n_parameters
    first, tokens = _timed(backend, prompts[:256], 1)
    short, _ = _timed(backend, prompts[:8], 1)
    long, _ = _timed(backend, prompts[:8], 129)
    prefill = 2 * n_parameters * tokens / first / peaks[0]
    decode = 128 * n_bytes / (long - short) / peaks[1]
    say(
        f"prefill: {prefill:.1%} of the chip's bf16 peak; decoding 8 rows: {decode:.1%} of its memory bandwidth"
    )
    return {"gpu_prefill_share_of_peak": prefill, "gpu_decode_share_of_bandwidth": decode}


def _timed(backend: Any, prompts: list[str], new_tokens: int) -> tuple[float, int]:
    """Median seconds of a call, and the prompt tokens that it computed."""
    times, tokens = [], 0
    for _ in range(5):
        started = time.perf_counter()
        backend.forget()
        made = backend.generate(prompts, Decoding(new_tokens))
        times.append(time.perf_counter() - started)
        tokens = sum(one.prompt_tokens - one.shared_tokens for one in made)
    return sorted(times)[2], tokens
