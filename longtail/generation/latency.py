"""What one user waits for one answer: lake table `single_latencies` (SPEC §3).

A local model is asked up to 50 seeded questions by each method with each prompt, round by round. Prompts with many
demonstrations take a slow model seconds each: after half a minute of answers, each method and prompt has at least six
times (the fewest whose median has an interval), and no more are taken. One call each warms it up before. Equal prompts
(two methods may show the same passage) are one call, whose time counts for each. Nothing is taken from the row cache
or put into it. Each call begins without the prefixes that earlier calls left: a single user finds no demonstrations
computed already, so the time is that of a cold prefix. Where a method has the model write a background text first, its
time is that of both texts. The time of finding passages is not included.

Paraphrases and samples are answered closed-book: their prompts are timed with that method.

A service is asked nothing, as that would cost money. Its times are those of the requests that answered the same
questions: each asked one question while others were under way, method after method. Prompts that ask no questions have
no times.

If methods were timed one after another, a change of the machine's speed would look like a difference between them. So
in each round all methods and prompts of a model are asked one question in turn, and such a change affects all alike.
The order within a round is drawn anew for each, so that no method always follows the same one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import platform
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.errors import BackendError
from longtail.generation.backends.base import Backend, Decoding, Failure, entry
from longtail.generation.engine.session import ModelSession
from longtail.generation.engine.task import ModelInput, Scope, materialise_empty, passages_of
from longtail.generation.prompts.build import bare_prompt
from longtail.generation.tasks.answers import Answers, AskedQuestion
from longtail.methods import BACKGROUND, MEMORY
from longtail.models.placement import cpu_info
from longtail.progress import Progress
from longtail.prompt_formats import BACKGROUND_TEMPLATE
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome
from longtail.storage.ownership import model_lock
from longtail.study.backends import GENERATE
from longtail.study.models import Model
from longtail.study.prompts import CANDIDATES
from longtail.study.study import Study
from longtail.threads import thread_count

_TABLE = "single_latencies"
_ANSWERS = Answers()
_SERVICE = "service"
_GPUS = Path("/proc/driver/nvidia/gpus")


N_QUESTIONS = 50
N_LEAST = 6
"""With fewer times, their median has no interval of 95 %."""
SECONDS = 30.0
"""Once a model has answered for so long, and in a quick run, no way is asked more than `N_LEAST` questions."""
Place = tuple[str, str]
"""Dataset and question id."""
Way = tuple[str, str]
"""Method and prompt: a way of asking."""
Steps = tuple[tuple[ModelInput, Decoding], ...]
"""What is generated for one answer, in order: prompts with their decoding."""


@dataclass(frozen=True)
class Round:
    """One question, and the ways in which it is asked, in their order."""

    place: Place
    rows: Mapping[Way, AskedQuestion]

    def row(self, way: Way, milliseconds: float) -> dict[str, Any]:
        """One answer's time; that of a service has no round and no turn."""
        (dataset, question_id), (method, prompt) = self.place, way
        return {
            "dataset": dataset, "question_id": question_id, "method": method, "prompt": prompt,
            "single_latency_ms": milliseconds, "round_number": None, "turn": None,
        }  # fmt: skip

    def turns(self, study: Study, left_out: Collection[Way] = ()) -> dict[Steps, list[Way]]:
        """Each distinct prompt once, with the ways that ask it, but for those that are `left_out`."""
        turns: dict[Steps, list[Way]] = {}
        for way, row in self.rows.items():
            if way not in left_out:
                turns.setdefault(_steps(study, way[0], row), []).append(way)
        return turns


@dataclass(frozen=True)
class _Calibration:
    """One partition to be."""

    study: Study
    lake: Lake
    model: Model
    session: ModelSession
    run_id: str
    log: logging.Logger

    def study_of(self, method: str) -> Study:
        """The study; the method of memory asks questions with the prompts of paraphrases and samples too.

        Scoring candidates is no answer that a user waits for.
        """
        if self.study.method(method).kind != MEMORY or self.model.service:
            return self.study
        prompts = tuple(
            prompt
            if prompt.generations == ("questions",)
            else dataclasses.replace(prompt, generations=("questions",), methods=())
            for prompt in self.study.prompts
            if CANDIDATES not in prompt.generations
        )
        return dataclasses.replace(self.study, prompts=prompts)

    def scope(self, method: str) -> Scope:
        return Scope(self.study_of(method), self.lake, self.model, method, self.log)


def calibrate_latency(
    study: Study, lake: Lake, model_name: str, *, session: ModelSession, run_id: str, log: logging.Logger
) -> Outcome:
    """Materialise partition `model` of `single_latencies`: one row per question, method and prompt.

    It is current as long as weights, prompts, questions, code and the machine are the same, however old it is.
    A further method or prompt times all of them anew: times are compared within one calibration only.
    The partition of a model whose answers are imported is empty.
    Errors: `LakeError` where an input is missing (for a service also its answers), `BackendError` where the model
    cannot be loaded or answers none of the questions of a method and prompt.
    """
    model = study.model(model_name)
    if not model.generates:
        return materialise_empty(lake, _TABLE, model_name)
    entry(model, GENERATE)
    c = _Calibration(study, lake, model, session, run_id, log)
    stamp = _fingerprint(c)
    lock = model_lock(study.home.locks, model_name, log)
    return lake.materialise(_TABLE, stamp, lambda: _compute(c), model_name, lock)


def _fingerprint(c: _Calibration) -> str:
    identity = c.session.identity(c.model)
    methods = []
    for method in sorted(c.study.methods):
        inputs = _ANSWERS.inputs(c.scope(method))
        if c.model.service:
            inputs.append(c.lake.content("answers", c.scope(method).name))
        methods.append([method, _ANSWERS.decisive(c.scope(method)), inputs])
    return fingerprint(
        _TABLE,
        [N_QUESTIONS, N_LEAST, SECONDS, c.study.is_quick, methods],
        [c.study.background_tokens if c.study.writes_background else None],
        [c.model.name, c.model.rambles, c.model.thinking_tokens, identity.weights, identity.rules],
        [identity.engine, identity.engine_version],
        [] if c.model.service else [c.model.device, c.model.device_map, _machine()],
        code_version(__name__),
    )


def _compute(c: _Calibration) -> Computed:
    rounds = choose_rounds(
        {method: _ANSWERS.plan(c.scope(method)).items for method in c.study.methods}, c.study.seed
    )
    if not rounds:
        return Computed([])
    if c.model.service:
        times, device = list(_times_of_requests(c, rounds)), _SERVICE
    else:
        backend = c.session.backend(c.model)
        times, device = list(_times_alone(c, backend, rounds)), backend.usage().device
    identity = c.session.identity(c.model)
    engine = f"{identity.engine} {identity.engine_version}"
    common = {"model": c.model.name, "device": device, "engine": engine, "run_id": c.run_id}
    return Computed([common | row for row in times], notes=_notes(c, rounds, times))


def _times_alone(c: _Calibration, backend: Backend, rounds: Sequence[Round]) -> Iterator[dict[str, Any]]:
    n_all = sum(len(asked.turns(c.study)) for asked in rounds)
    progress = Progress(c.log, f"{_TABLE} {c.model.name}: prompts sent alone", n_all)
    warm: set[Way] = set()
    n_times: Counter[Way] = Counter()
    spent = 0.0
    for number, planned in enumerate(rounds):
        is_late = c.study.is_quick or spent >= 1000 * SECONDS
        turns = planned.turns(c.study, {way for way, n in n_times.items() if is_late and n >= N_LEAST})
        for steps, ways in turns.items():
            if not warm.issuperset(ways):  # a way that was not asked before is asked once more first
                _milliseconds(backend, steps)
                warm.update(ways)
        times = [_milliseconds(backend, steps) for steps in turns]
        progress.add(len(planned.turns(c.study)))
        for turn, (milliseconds, ways) in enumerate(zip(times, turns.values(), strict=True)):
            if milliseconds is not None:
                spent += milliseconds
                n_times.update(ways)
                order = {"round_number": number, "turn": turn}
                yield from (planned.row(way, milliseconds) | order for way in ways)
    progress.done()


def _milliseconds(backend: Backend, steps: Steps) -> float | None:
    """The wall time of one user's answer; None where a step failed."""
    total = 0.0
    for prompt, decoding in steps:
        backend.forget()
        started = time.perf_counter()
        (result,) = backend.generate([prompt.text], decoding, **passages_of([prompt]))
        total += 1000 * (time.perf_counter() - started)
        if isinstance(result, Failure):
            return None
    return total


def _times_of_requests(c: _Calibration, rounds: Sequence[Round]) -> Iterator[dict[str, Any]]:
    for method in c.study.methods:
        columns = ["dataset", "question_id", "prompt", "latency_ms"]
        rows = c.lake.read("answers", c.scope(method).name, columns).to_pylist()
        known = {(row["dataset"], row["question_id"], row["prompt"]): row["latency_ms"] for row in rows}
        is_written = c.study.method(method).kind == BACKGROUND
        written = c.lake.read("generated_passages", c.model.name).to_pylist() if is_written else []
        before = {(row["dataset"], row["question_id"]): row["latency_ms"] for row in written}
        for question in rounds:
            for way in question.rows:
                milliseconds = known.get((*question.place, way[1])) if way[0] == method else None
                if milliseconds is not None:
                    yield question.row(way, milliseconds + before.get(question.place, 0.0))


def _notes(c: _Calibration, rounds: Iterable[Round], rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The median of each way. Errors: `BackendError` where a way has no answer."""
    times: dict[Way, list[float]] = defaultdict(list)
    for row in rows:
        times[row["method"], row["prompt"]].append(row["single_latency_ms"])
    for method, prompt in sorted({way for planned in rounds for way in planned.rows}):
        if (method, prompt) not in times:
            raise BackendError(
                f"{_TABLE} {c.model.name}: none of the questions of method {method} with prompt {prompt} was answered"
            )
    return {
        f"{method}_{prompt}_ms": round(statistics.median(milliseconds), 2)
        for (method, prompt), milliseconds in sorted(times.items())
    }


def _machine() -> list[str]:
    """What decides how fast a local model is, found without an engine: processor, threads, GPUs."""
    files = sorted(_GPUS.glob("*/information"))
    gpus = [
        line for file in files for line in file.read_text(errors="replace").splitlines() if "Model" in line
    ]
    return [platform.machine(), cpu_info("model name") or platform.processor(), str(thread_count()), *gpus]


def choose_rounds(plans: Mapping[str, Sequence[AskedQuestion]], seed: int) -> list[Round]:
    """The rounds of a calibration, from the planned items of each method.

    Each way is asked at most 50 questions. Questions that suit all ways come first, so that times are compared on the
    same question, then those whose hash of (seed, question) is smallest.
    """
    asked: dict[Way, dict[Place, AskedQuestion]] = {}
    for method, rows in plans.items():
        for row in rows:
            way = (method, str(row.group.prompt))
            asked.setdefault(way, {})[row.group.dataset, row.question.question_id] = row
    common = set.intersection(*map(set, asked.values())) if asked else set()
    places = {
        question: (question not in common, _digest(seed, *question))
        for question in set().union(*asked.values())
    }
    chosen: dict[Place, list[Way]] = {}
    for way, rows_of in asked.items():
        for question in sorted(rows_of, key=places.__getitem__)[:N_QUESTIONS]:
            chosen.setdefault(question, []).append(way)
    rounds = []
    for question in sorted(chosen, key=places.__getitem__):
        ways = sorted(chosen[question], key=lambda way, place=question: _digest(seed, *place, *way))  # type: ignore[misc]
        rounds.append(Round(question, {way: asked[way][question] for way in ways}))
    return rounds


def _digest(*parts: str | int) -> bytes:
    text = "\n".join(map(str, parts))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _steps(study: Study, method: str, row: AskedQuestion) -> Steps:
    answer = (row.prompt(), row.request.decoding or Decoding(study.max_new_tokens))
    if study.method(method).kind != BACKGROUND:
        return (answer,)
    background = bare_prompt(row.question.question, BACKGROUND_TEMPLATE)
    return ((ModelInput(background), Decoding(study.background_tokens)), answer)
