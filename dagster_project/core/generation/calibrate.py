"""What one user waits for one answer: lake table `latency_calibrations` (SPEC §3).

What belongs here: choosing questions, asking them one at a time, medians. What does not: what a row of a batch took
(`latency_ms`, which a backend tells), and sums over methods (dbt).

A local model is asked up to 50 seeded questions of each prompt, the same for every method, one call a question,
after one that warms it up. Nothing is taken from the row cache or put into it. What earlier calls left to share is
dropped before each question: a user who comes alone finds no demonstrations computed already, so the time is that
of a cold prefix. Method genread writes its background text first, and the time is of both. Finding passages takes
time of its own, which is not in it.

A service is asked nothing, as that would cost money: its time is that of the requests that answered the same
questions, each one question, made while others were under way.
"""

from __future__ import annotations

import hashlib
import logging
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dagster_project.core.errors import BackendError
from dagster_project.core.generation.base import GENERATE, Backend, Decoding, Failure
from dagster_project.core.generation.plan import PlannedRow, plan_answers, prompt_slice
from dagster_project.core.generation.progress import Progress
from dagster_project.core.generation.prompts import BACKGROUND_TEMPLATE, bare_prompt
from dagster_project.core.generation.registry import entry
from dagster_project.core.generation.run import answer_inputs
from dagster_project.core.generation.session import ModelSession, model_lock
from dagster_project.core.lake import Computed, Lake, Outcome, code_version, fingerprint
from dagster_project.core.study import Model, Study
from dagster_project.core.threads import thread_count

N_QUESTIONS = 50
_TABLE = "latency_calibrations"
_SERVICE = "service"
_GPUS = Path("/proc/driver/nvidia/gpus")
_CPUS = Path("/proc/cpuinfo")


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
    Errors: `LakeError` where an input is missing (of a service also its answers), `BackendError` where the model
    cannot be loaded or answers none of a prompt's questions.
    """
    model = study.model(model_name)
    entry(model, GENERATE)
    partition = f"{model_name}|{method}"
    inputs = answer_inputs(study, lake, model_name, method)
    if model.service:
        inputs.append(lake.content("answers", partition))
    identity = session.identity(model)
    stamp = fingerprint(
        _TABLE,
        [N_QUESTIONS, prompt_slice(study, "answers", method), study.max_new_tokens, study.background_tokens],
        [model_name, method, identity.weights, identity.engine, identity.engine_version],
        [model.device, model.device_map, _machine()] if model.service is None else [],
        inputs,
        code_version("generation"),
    )

    def compute() -> Computed:
        chosen = choose_questions(plan_answers(study, lake, model_name, method).rows, study.seed)
        if model.service:
            timed, device = _times_of_requests(lake, model_name, method, chosen), _SERVICE
        else:
            backend = session.backend(model)
            timed, device = _times_alone(study, model, method, backend, chosen, log), backend.usage().device
        common = {
            "model": model_name, "method": method, "device": device, "run_id": run_id,
            "engine": f"{identity.engine} {identity.engine_version}",
        }  # fmt: skip
        rows = [{**common, **_summary(partition, prompt, times)} for prompt, times in timed.items()]
        return Computed(
            rows, notes={f"{row['prompt']}_ms": round(row["single_latency_ms"], 2) for row in rows}
        )

    current = lake.current(_TABLE, stamp, partition)
    if current:
        return Outcome(_TABLE, partition, current, was_current=True)
    with model_lock(study.home.locks, model_name, log):
        return lake.materialise(_TABLE, stamp, compute, partition)


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
    study: Study,
    model: Model,
    method: str,
    backend: Backend,
    chosen: Mapping[str, Sequence[PlannedRow]],
    log: logging.Logger,
) -> dict[str, list[float]]:
    """Prompt → milliseconds of each question that was answered."""
    n_all = sum(map(len, chosen.values()))
    progress = Progress(f"{_TABLE} {model.name}|{method}", n_all, n_all, log)
    found: dict[str, list[float]] = {}
    for prompt, rows in chosen.items():
        asked = [_steps(study, method, row) for row in rows]
        _milliseconds(backend, asked[0])
        times = []
        for steps in asked:
            times.append(_milliseconds(backend, steps))
            progress.advance(1, 1)
        found[prompt] = [one for one in times if one is not None]
    return found


def _steps(study: Study, method: str, row: PlannedRow) -> list[tuple[str, Decoding]]:
    """What is generated for one answer, in order."""
    steps = [(row.text(), Decoding(study.max_new_tokens))]
    if method == "genread":
        background = bare_prompt(row.question.question, BACKGROUND_TEMPLATE)
        steps.insert(0, (background, Decoding(study.background_tokens)))
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


def _times_of_requests(
    lake: Lake, model_name: str, method: str, chosen: Mapping[str, Sequence[PlannedRow]]
) -> dict[str, list[float]]:
    """Prompt → milliseconds of the requests that answered the chosen questions."""
    columns = ["dataset", "question_id", "prompt", "latency_ms"]
    rows = lake.read("answers", f"{model_name}|{method}", columns).to_pylist()
    known = {(row["dataset"], row["question_id"], row["prompt"]): row["latency_ms"] for row in rows}
    before: dict[tuple[str, str], float] = {}
    if method == "genread":
        written = lake.read("generated_passages", model_name, ["dataset", "question_id", "latency_ms"])
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
