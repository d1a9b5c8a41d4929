"""How fast Longtail generates, samples and scores, compared with common practice.

Run `make bench-generation`, or `python -m benchmarks.generation` if only torch and transformers are installed. The rows
of all contestants must be equal before their time counts. The last line is JSON:

- `loop_ratio`: times as fast as `generate` on one prompt at a time (the loop of the seed papers)
- `batched_ratio`: times as fast as `generate` on padded batches, at the fastest of several batch sizes
- `sampling_cost`: time of ten samples per question divided by the time of one greedy pass
- `scoring_ratio`: times as fast as scoring each candidate by its own forward pass
- `confidence_overhead`: processor time of greedy answers with confidence divided by that without it, less 1
- `gpu_…`: ratios of large shapes on a CUDA device (`benchmarks.gpu`), if there is one
- `real_…`: with `--real`, `--full`, `--llama-cpp`, and then only these: a real model's ratios (`benchmarks.real_model`)
- `peak_overhead_mb`: peak memory while many prompts stream through engine and row cache, without the loaded model
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.confidence import confidence_overhead
from benchmarks.gpu import race_on
from benchmarks.harness import Contestant, last_line, machine, race, say, spread, table
from benchmarks.peers import NEW_TOKENS, Harness, Transformers
from benchmarks.prompts import candidates, fifteen_shot, sandbox_questions
from benchmarks.real_model import (
    HARNESS,
    LONGTAIL,
    LOOP,
    SMOLLM2,
    greedy,
    installed,
    race_real_model,
    real_questions_file,
    texts,
)
from longtail.generation.backends.base import Decoding, load_backend
from longtail.study.model_files import reference_model_path
from longtail.study.models import Model
from longtail.threads import thread_count

BATCHED = "transformers, padded batches"
SAMPLES = 10
STREAMED = 118_643
_BATCH_SIZES = (16, 64, 256)
_ALLOWED_DIFFERENT = 0.002
"""Share of answers that may differ from the loop's, because near-ties can change in batches of another shape."""
_ALLOWED_NATS = 0.01


def main() -> None:
    """Run what the command line asks for and print tables, then the JSON line."""
    asked = _arguments()
    import torch

    torch.set_num_threads(thread_count())
    if asked.real or asked.full or asked.llama_cpp:
        n = asked.questions or (200 if asked.full else 40)
        rounds = asked.rounds if asked.full else 1
        figures = race_real_model(SMOLLM2, real_questions_file(), n, rounds, asked.llama_cpp)
        print(f"\n{machine('torch', 'transformers')}, {thread_count()} threads. {rounds} rounds; medians.")
        return last_line(figures)
    model = Model(name="reference_l", path="sandbox:l")
    prompts = fifteen_shot(sandbox_questions(), "per_relation")[:: max(1, asked.every)]
    say(machine("torch", "transformers") + f", {thread_count()} threads")
    figures = _generation(model, prompts, asked)
    figures |= _scoring(model, prompts, asked)
    if asked.gpu == "tiny" or (asked.gpu == "auto" and torch.cuda.is_available()):
        tiny = asked.gpu == "tiny"
        device = "cpu" if tiny else "cuda"
        figures |= race_on(device, asked.rounds, every=asked.every, tiny=tiny, harness=not asked.no_harness)
    else:
        print("\nno CUDA device: the shapes of OPT-6.7B and GPT-NeoX-20B were not run", flush=True)
    if asked.stream:
        figures["peak_overhead_mb"] = _streaming(asked.stream)
    print(
        f"\n{machine('torch', 'transformers')}, {thread_count()} threads. {asked.rounds} rounds; seconds are medians."
    )
    last_line(figures)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.generation", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each contestant")
    parser.add_argument("--every", type=int, default=1, help="take every n-th of the 2,240 questions")
    parser.add_argument(
        "--candidates", type=int, default=200, help="candidates that are scored after a prompt"
    )
    parser.add_argument("--stream", type=int, default=STREAMED, help="prompts of the memory test; 0 skips it")
    parser.add_argument(
        "--gpu", choices=("auto", "off", "tiny"), default="auto",
        help="large shapes: if there is a CUDA device; never; or a tiny one on the CPU, to test the code",
    )  # fmt: skip
    parser.add_argument("--no-harness", action="store_true", help="leave lm-evaluation-harness out")
    parser.add_argument(
        "--real", action="store_true", help="SmolLM2-135M on 40 questions of PopQA, one round"
    )
    parser.add_argument("--full", action="store_true", help="SmolLM2-135M on 200 questions of PopQA")
    parser.add_argument(
        "--llama-cpp",
        action="store_true",
        help="SmolLM2-135M by Longtail and llama.cpp alone (pip install -e .[bench-llama])",
    )
    parser.add_argument("--questions", type=int, help="another number of questions of the real model")
    return parser.parse_args()


def _generation(model: Model, prompts: list[str], asked: argparse.Namespace) -> dict[str, float | None]:
    """Greedy answers by all contestants, and ten samples by ours."""
    folder = reference_model_path(model.path.removeprefix("sandbox:"))
    peer = Transformers(folder)
    backend = load_backend(model)
    size = _fastest_size(peer, prompts)
    contestants = [
        Contestant(
            LOOP, lambda: peer.loop(prompts), len(prompts)
        ),  # it runs first, because the others are compared with it
        Contestant(LONGTAIL, lambda: greedy(backend, prompts), len(prompts)),
        Contestant(f"{BATCHED} of {size}", lambda: peer.batched(prompts, size), len(prompts)),
        Contestant(f"{LONGTAIL}, {SAMPLES} samples", lambda: _samples(backend, prompts), len(prompts)),
    ]
    harness = None if asked.no_harness else installed(HARNESS, lambda: Harness(folder, size=size))
    if harness:
        contestants.append(Contestant(HARNESS, lambda: harness.answer(prompts), len(prompts)))
    reference: list[str] = []
    race(contestants, asked.rounds, lambda name, made: _check_answers(name, made, reference))
    loop, ours, batched, sampled = contestants[:4]
    table(
        f"Greedy answers to {len(prompts):,} questions, 15 demonstrations per relation, reference model L",
        ("contestant", "questions per second", "seconds", "spread", "Longtail is faster by"),
        [
            (c.name, f"{c.n / c.median:.1f}", f"{c.median:.2f}", spread(c), f"{c.median / ours.median:.1f}×")
            for c in contestants
            if c is not sampled
        ],
    )
    table(
        f"{SAMPLES} samples per question at temperature 0.5",
        ("pass", "seconds", "spread", "of one greedy pass"),
        [(c.name, f"{c.median:.2f}", spread(c), f"{c.median / ours.median:.2f}×") for c in (ours, sampled)],
    )
    overhead = confidence_overhead(backend, prompts, NEW_TOKENS)
    backend.close()
    return {
        "confidence_overhead": overhead,
        "loop_ratio": loop.median / ours.median,
        "batched_ratio": batched.median / ours.median,
        "sampling_cost": sampled.median / ours.median,
        "harness_ratio": contestants[4].median / ours.median if harness else None,
    }


def _fastest_size(peer: Transformers, prompts: list[str]) -> int:
    """The batch size at which padded batches are fastest, on a part of the prompts."""
    some = prompts[:: max(1, len(prompts) // 512)]
    trials = [Contestant(str(size), _batches_of(peer, some, size), len(some)) for size in _BATCH_SIZES]
    race(trials, 1, lambda name, made: None)
    return int(min(trials, key=lambda trial: trial.median).name)


def _batches_of(peer: Transformers, prompts: list[str], size: int) -> Callable[[], Sequence[Any]]:
    return lambda: peer.batched(prompts, size)


def _samples(backend: Any, prompts: list[str]) -> list[list[str]]:
    backend.forget()
    seeds = [[row * SAMPLES + sample for sample in range(SAMPLES)] for row in range(len(prompts))]
    drawn = backend.sample(prompts, Decoding(NEW_TOKENS, temperature=0.5), seeds)
    return [texts(answers) for answers in drawn]


def _check_answers(name: str, made: Sequence[Any], reference: list[str]) -> None:
    """Greedy answers must equal the loop's first ones, except for near-ties. For samples, none may be missing."""
    if not reference:
        reference += made
    if len(made) != len(reference):
        raise SystemExit(f"error: {name} gave {len(made)} answers to {len(reference)} questions")
    if isinstance(made[0], list):
        if any(len(answers) != SAMPLES for answers in made):
            raise SystemExit(f"error: {name} left out samples")
        return
    different = [i for i, (own, theirs) in enumerate(zip(made, reference, strict=True)) if own != theirs]
    if (
        name == HARNESS
    ):  # it strips nothing and stops at the first line break, so an empty first line ends the answer
        different = [i for i in different if reference[i].strip() != made[i].strip()]
    if len(different) > _ALLOWED_DIFFERENT * len(reference):
        first = different[0]
        raise SystemExit(
            f"error: {name} differs from the loop in {len(different)} of {len(reference)} answers, "
            f"first {made[first]!r} for {reference[first]!r}"
        )
    say(f"{name}: {len(different)} of {len(reference):,} answers differ from the loop's")


def _scoring(model: Model, prompts: list[str], asked: argparse.Namespace) -> dict[str, float | None]:
    """Scores 200 candidates of a relation after each of a few prompts."""
    given = candidates(asked.candidates)
    some = prompts[:: max(1, len(prompts) // 8)][:8]
    peer = Transformers(reference_model_path(model.path.removeprefix("sandbox:")))
    backend: Any = load_backend(model)

    def ours() -> list[list[float]]:
        backend.forget()
        scored = backend.score(some, [given] * len(some))
        return [[score.log_likelihood for score in found.scores] for found in scored]

    contestants = [
        Contestant(LONGTAIL, ours, len(some) * len(given)),
        Contestant(
            "one forward pass per candidate", lambda: peer.score_each(some, given), len(some) * len(given)
        ),
    ]
    reference = peer.score_each(some[:1], given)[0]

    def check(name: str, made: Sequence[Any]) -> None:
        furthest = max(abs(a - b) for a, b in zip(made[0], reference, strict=True))
        if furthest > _ALLOWED_NATS:
            raise SystemExit(f"error: {name}: a score is {furthest:.4f} nats from its own forward pass")

    race(contestants, asked.rounds, check)
    table(
        f"Scores of {len(given)} candidates after each of {len(some)} 15-shot prompts",
        ("contestant", "candidates per second", "seconds", "spread", "Longtail is faster by"),
        [
            (
                c.name,
                f"{c.n / c.median:.0f}",
                f"{c.median:.2f}",
                spread(c),
                f"{c.median / contestants[0].median:.1f}×",
            )
            for c in contestants
        ],
    )
    backend.close()
    return {"scoring_ratio": contestants[1].median / contestants[0].median}


def _streaming(n: int) -> float:
    """Peak memory of a process that answers `n` prompts, above its memory after loading the model (MiB)."""
    say(f"streaming {n:,} prompts through engine and row cache …")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.streaming", str(n)],
        check=True, stdout=subprocess.PIPE, env={**os.environ}, text=True,
    )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    table(
        f"{n:,} prompts streamed through engine and row cache",
        ("prompts per second", "memory with the model, MiB", "peak, MiB", "peak overhead, MiB"),
        [
            (
                f"{n / found['seconds']:.0f}",
                f"{found['loaded_mb']:.0f}",
                f"{found['peak_mb']:.0f}",
                f"{found['peak_mb'] - found['loaded_mb']:.0f}",
            )
        ],
    )
    return float(found["peak_mb"] - found["loaded_mb"])


if __name__ == "__main__":
    main()
