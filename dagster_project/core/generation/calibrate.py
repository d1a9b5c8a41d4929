"""What one user waits for one answer: lake table `latency_calibrations` (SPEC §3).

What belongs here: choosing questions, asking them one at a time, medians. What does not: what a row of a batch took
(`latency_ms`, which a backend tells), and sums over methods (dbt).

A local model is asked up to 50 seeded questions of each prompt, the same for every method, one call a question,
after one that warms it up. Nothing is taken from the row cache or put into it. What earlier calls left to share is
dropped before each question: a user who comes alone finds no demonstrations computed already, so the time is that
of a cold prefix. Method genread writes its background text first, and the time is of both. Finding passages takes
time of its own, which is not in it.

Paraphrases and samples are answered closed-book: their prompts are timed with that method.

A service is asked nothing, as that would cost money: its time is that of the requests that answered the same
questions, each one question, made while others were under way. Its prompts that ask no questions have none.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dagster_project.core.errors import BackendError
from dagster_project.core.generation.base import GENERATE, Backend, Decoding, Failure
from dagster_project.core.generation.partition import one_at_a_time, without_rows
from dagster_project.core.generation.plan import PlannedRow, plan_answers, prompt_slice
from dagster_project.core.generation.progress import Progress
from dagster_project.core.generation.prompts import BACKGROUND_TEMPLATE, bare_prompt
from dagster_project.core.generation.registry import entry
from dagster_project.core.generation.run import answer_inputs
from dagster_project.core.generation.session import ModelSession
from dagster_project.core.lake import Computed, Lake, Outcome, code_version, fingerprint
from dagster_project.core.study import IMPORTED, Model, Study
from dagster_project.core.threads import thread_count

N_QUESTIONS = 50
_TABLE = "latency_calibrations"
_SERVICE = "service"
_GPUS = Path("/proc/driver/nvidia/gpus")
_CPUS = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class _Calibration:
    """One partition to be."""

    study: Study
    lake: Lake
    model: Model
    method: str
    session: ModelSession
    run_id: str
    log: logging.Logger

    @property
    def partition(self) -> str:
        return f"{self.model.name}|{self.method}"


def calibrate_latency(
    study: Study,
    lake: Lake,
    model_name: str,
    method: str,
    *,
    session: ModelSession,
    run_id: str,
    log: logging.Logger,
) -> Outcome:
    """Materialise partition `model|method` of `latency_calibrations`: one row a prompt.

    It is current as long as weights, prompts, questions, code and the machine are the same, whatever the clock says.
    Of a model whose answers are imported the partition is empty.
    Errors: `LakeError` where an input is missing (of a service also its answers), `BackendError` where the model
    cannot be loaded or answers none of a prompt's questions.
    """
    model = study.model(model_name)
    if model.backend == IMPORTED:
        return without_rows(lake, _TABLE, f"{model_name}|{method}")
    entry(model, GENERATE)
    if method == "closed_book" and model.service is None:
        study = _with_all_prompts(study)
    c = _Calibration(study, lake, model, method, session, run_id, log)
    stamp = _fingerprint(c)
    return one_at_a_time(study, lake, _TABLE, c.partition, stamp, model, lambda: _compute(c), log)


def _with_all_prompts(study: Study) -> Study:
    """The study, asking questions with the prompts of paraphrases and samples too: they are answered closed-book."""
    prompts = tuple(dataclasses.replace(prompt, asks=("questions",)) for prompt in study.prompts)
    return dataclasses.replace(study, prompts=prompts)


def _fingerprint(c: _Calibration) -> str:
    identity = c.session.identity(c.model)
    inputs = answer_inputs(c.study, c.lake, c.model.name, c.method)
    if c.model.service:
        inputs.append(c.lake.content("answers", c.partition))
    return fingerprint(
        _TABLE,
        [N_QUESTIONS, prompt_slice(c.study, "answers", c.method)],
        [c.study.max_new_tokens, c.study.background_tokens if c.method == "genread" else None],
        [c.partition, identity.weights, identity.engine, identity.engine_version],
        [] if c.model.service else [c.model.device, c.model.device_map, _machine()],
        inputs,
        code_version("generation"),
    )


def _compute(c: _Calibration) -> Computed:
    chosen = choose_questions(plan_answers(c.study, c.lake, c.model.name, c.method).rows, c.study.seed)
    if c.model.service:
        timed, device = _times_of_requests(c, chosen), _SERVICE
    elif chosen:
        backend = c.session.backend(c.model)
        timed, device = _times_alone(c, backend, chosen), backend.usage().device
    else:
        return Computed([])
    identity = c.session.identity(c.model)
    common = {
        "model": c.model.name,
        "method": c.method,
        "device": device,
        "engine": f"{identity.engine} {identity.engine_version}",
        "run_id": c.run_id,
    }
    rows = [{**common, **_summary(c.partition, prompt, times)} for prompt, times in timed.items()]
    return Computed(rows, notes={f"{row['prompt']}_ms": round(row["single_latency_ms"], 2) for row in rows})


def choose_questions(rows: Iterable[PlannedRow], seed: int) -> dict[str, list[PlannedRow]]:
    """Prompt → at most 50 rows, those whose hash of (seed, dataset, question) is smallest."""
    by_prompt: dict[str, list[PlannedRow]] = {}
    for row in rows:
        by_prompt.setdefault(str(row.group.prompt), []).append(row)

    def place(row: PlannedRow) -> bytes:
        text = f"{seed}\n{row.group.dataset}\n{row.question.question_id}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

    return {prompt: sorted(some, key=place)[:N_QUESTIONS] for prompt, some in by_prompt.items()}


def _times_alone(
    c: _Calibration, backend: Backend, chosen: Mapping[str, Sequence[PlannedRow]]
) -> dict[str, list[float]]:
    """Prompt → milliseconds of each question that was answered."""
    n_all = sum(map(len, chosen.values()))
    progress = Progress(f"{_TABLE} {c.partition}", n_all, n_all, c.log)
    found: dict[str, list[float]] = {}
    for prompt, rows in chosen.items():
        asked = [_steps(c, row) for row in rows]
        _milliseconds(backend, asked[0])
        times = []
        for steps in asked:
            times.append(_milliseconds(backend, steps))
            progress.advance(1, 1)
        found[prompt] = [one for one in times if one is not None]
    return found


def _steps(c: _Calibration, row: PlannedRow) -> list[tuple[str, Decoding]]:
    """What is generated for one answer, in order."""
    steps = [(row.text(), Decoding(c.study.max_new_tokens))]
    if c.method == "genread":
        background = bare_prompt(row.question.question, BACKGROUND_TEMPLATE)
        steps.insert(0, (background, Decoding(c.study.background_tokens)))
    return steps


def _milliseconds(backend: Backend, steps: Sequence[tuple[str, Decoding]]) -> float | None:
    """The wall time of one user's answer; None where a step failed."""
    total = 0.0
    for prompt, decoding in steps:
        backend.forget()
        started = time.perf_counter()
        (result,) = backend.generate([prompt], decoding)
        total += 1000 * (time.perf_counter() - started)
        if isinstance(result, Failure):
            return None
    return total


def _times_of_requests(c: _Calibration, chosen: Mapping[str, Sequence[PlannedRow]]) -> dict[str, list[float]]:
    """Prompt → milliseconds of the requests that answered the chosen questions."""
    columns = ["dataset", "question_id", "prompt", "latency_ms"]
    rows = c.lake.read("answers", c.partition, columns).to_pylist()
    known = {(row["dataset"], row["question_id"], row["prompt"]): row["latency_ms"] for row in rows}
    before: dict[tuple[str, str], float] = {}
    if c.method == "genread":
        written = c.lake.read("generated_passages", c.model.name, ["dataset", "question_id", "latency_ms"])
        before = {(row["dataset"], row["question_id"]): row["latency_ms"] for row in written.to_pylist()}
    found: dict[str, list[float]] = {}
    for prompt, some in chosen.items():
        keys = [(row.group.dataset, row.question.question_id) for row in some]
        found[prompt] = [
            known[(*key, prompt)] + before.get(key, 0.0) for key in keys if (*key, prompt) in known
        ]
    return found


def _summary(partition: str, prompt: str, times: Sequence[float]) -> dict[str, Any]:
    if not times:
        raise BackendError(f"{_TABLE} {partition}: none of the questions of prompt {prompt} was answered")
    middle, high = np.percentile(times, [50, 95])
    return {
        "prompt": prompt,
        "n_questions": len(times),
        "single_latency_ms": float(middle),
        "single_latency_ms_p95": float(high),
    }


def _machine() -> list[str]:
    """What decides how fast a local model is, without asking an engine: processor, threads, GPUs."""
    cpu = next((line for line in _lines(_CPUS) if line.startswith("model name")), platform.processor())
    gpus = [line for file in sorted(_GPUS.glob("*/information")) for line in _lines(file) if "Model" in line]
    return [platform.machine(), cpu, str(thread_count()), *gpus]


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
