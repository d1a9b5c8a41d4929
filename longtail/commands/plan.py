"""What `longtail plan` does: says what a run of the study would still compute, and computes nothing."""

from __future__ import annotations

import functools
import itertools
import logging
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pyarrow.compute as pc

from dagster_project.operations import in_one_line
from dagster_project.stages import Stage, plan
from longtail.commands.display import StageTimes
from longtail.commands.run import report_missing
from longtail.errors import LakeError
from longtail.generation.engine.job import common_bytes, distinct_works, in_order
from longtail.generation.engine.partition import cache_of, fingerprint_of
from longtail.generation.engine.session import ModelSession
from longtail.generation.engine.task import BYTES_PER_TOKEN, Scope, Task
from longtail.generation.latency import SECONDS
from longtail.generation.tasks.registry import TASKS
from longtail.imports.datasets import import_questions
from longtail.preflight import misses
from longtail.progress import duration
from longtail.questions.build import Choice, make_questions
from longtail.retrieval.splitting import passages_of
from longtail.storage.home import study_file
from longtail.storage.lake import Lake
from longtail.study.backends import IMPORTED
from longtail.study.file import load_study
from longtail.study.model_files import find_gguf, read_header
from longtail.study.models import Model
from longtail.study.prices import price_on
from longtail.study.study import Study
from longtail.study.tables import local_parameters
from longtail.tables import TABLES

_LOG = logging.getLogger("longtail")
_SILENT = logging.getLogger("longtail.plan.silent")
_SILENT.setLevel(logging.CRITICAL)
_USUAL_PASSAGE = "passage " * 75
"""As long as a passage of 100 words."""
_USUAL_S = {"report": 60.0, "single_latencies": SECONDS, "other": 3.0}
"""Seconds of a stage that has never run in this home: those of a small study on two slow cores. Times of single answers
are taken for about so long, whatever the study."""
_SECONDS_PER_HOUR = 3600
_SIDE = 1024
_SHARE_OF_PRODUCT = 0.5
"""The speed of a small model beside that of a product of matrices of this side: measured, see benchmarks/RESULTS.md."""


@dataclass(frozen=True)
class Planned:
    """A stage: what it has still to do, in words, and its seconds and dollars; None where they are not known."""

    title: str
    state: str
    seconds: float | None = 0.0
    usd: float | None = 0.0

    def __str__(self) -> str:
        length = "" if self.seconds == 0 else "?" if self.seconds is None else duration(self.seconds)
        money = f"  ${self.usd:,.2f}" if self.usd else ""
        return f"  {self.title:<46.46} {length:>7}  {self.state}{money}"


@in_one_line
def main() -> int:
    """Print the plan; return the exit code. A failure is one line on standard error."""
    warnings.filterwarnings("ignore")
    study = load_study(study_file())
    if missing := misses(study):
        return report_missing(study, missing)
    print(f"Longtail: study {study.name} ({study.path.name}), state in {study.home.root}")
    print(
        "What a run would do, a stage in each line, with the time that it may take. Nothing is computed now."
    )
    stages = []
    for planned in plan_of(study):
        stages.append(planned)
        print(planned, flush=True)
    print("\n".join(_sums(study, stages)))
    return 0


def plan_of(study: Study) -> Iterator[Planned]:
    """Every stage of the study in order. Errors: `LongtailError` where a model's files cannot be read."""
    from dagster_project.definitions import defs

    times, lake = StageTimes(study.home.stage_times), Lake(study.home.lake)
    with ModelSession(_LOG) as session, tempfile.TemporaryDirectory() as folder:
        assumed = functools.cache(lambda: assume_inputs(study, Lake(Path(folder))))
        for stage in plan(study, defs().resolve_asset_graph()):
            table, last = stage.keys[0].split("/")[-1], times.of(stage)
            try:
                if table not in TASKS:
                    yield _line_of_other_stage(study, lake, stage, last)
                    continue
                try:
                    yield _generation_line(study, lake, stage, session)
                except LakeError:
                    yield _generation_line(study, assumed(), stage, session)
            except LakeError:
                yield Planned(stage.title, "to do; counted once the stages before it have run", last)


def assume_inputs(study: Study, lake: Lake) -> Lake:
    """`lake` with the questions of the study's files, as if every retriever had found the passage beside each of them, or
    a text of usual length; of a long text, its longest passage. A study that asks about a source's facts has no questions
    yet.
    """
    if study.datasets_of_source:
        return lake
    files = [(one, import_questions(study, one, lake, _SILENT)) for one in study.datasets_of_files]
    beside = {
        entity: max(passages_of(text), key=len, default=text)
        for _, content in files
        for entity, (_, text) in content.passages.items()
    }
    no_facts, no_entities = (TABLES[name].schema.empty_table() for name in ("triples", "entities"))
    computed = make_questions(no_facts, no_entities, (), files, Choice.of(study), _SILENT)
    lake.write("questions", computed.rows, fingerprint="")
    questions = lake.read("questions").to_pylist()
    passages = [
        {"passage_id": f"{row['dataset']} {row['question_id']}", "entity_id": row["subject_id"], "title": "",
         "position": 0, "text": f"{row['question_id']} {beside.get(row['subject_id'], _USUAL_PASSAGE)}",
         "source": IMPORTED}
        for row in questions
    ]  # fmt: skip
    found = [
        {"dataset": row["dataset"], "question_id": row["question_id"], "paraphrase_id": 0, "rank": 1 + rank, "score": 0.0,
         "passage_id": passage["passage_id"], "has_answer": False, "has_answer_popqa": False}
        for row, passage in zip(questions, passages, strict=True)
        for rank in range(max(1, *(model.passages for model in study.models)))
    ]  # fmt: skip
    for table in ("passages", "cited_passages"):
        lake.write(table, passages, fingerprint="")
    for retriever in study.retrieval_methods:
        rows = [{**row, "retriever": retriever} for row in found]
        lake.write("retrieved_passages", rows, fingerprint="", partition=retriever)
    return lake


def _line_of_other_stage(study: Study, lake: Lake, stage: Stage, last: float | None) -> Planned:
    """The line of a stage that reads other tables than prompts. Dagster's daemon may have run it, which keeps no time."""
    table = stage.keys[0].split("/")[-1]
    usual = _USUAL_S["report" if stage.is_output else table if table in _USUAL_S else "other"]
    if stage.is_output:
        was_made = study.home.published_warehouse.exists()
    else:
        was_made = any(stage.model in (None, part.partition("|")[0]) for part in lake.partitions(table))
    if last is None and not was_made:
        return Planned(stage.title, "to do; more for a large study", usual)
    seconds = usual if last is None else last
    return Planned(stage.title, "ran before; skipped if nothing it reads has changed", seconds)


def _generation_line(study: Study, lake: Lake, stage: Stage, session: ModelSession) -> Planned:
    """The line of a generated table of one model; of its partitions, current ones have no estimate.

    Errors: `LakeError` where an input is not made yet.
    """
    task, model = TASKS[stage.keys[0].split("/")[-1]], study.model(str(stage.model))
    methods = study.methods if stage.first != stage.model else (None,)
    of_each = (estimate(task, Scope(study, lake, model, method), session) for method in methods)
    found = [one for one in of_each if one]
    if not found:
        return Planned(stage.title, "finished")
    missing, results = sum(one.n_missing for one in found), sum(one.n_results for one in found)
    if not missing:
        return Planned(stage.title, f"rows made again from {results:,} results in the row cache")
    prompt, new = sum(one.prompt_tokens for one in found), sum(one.new_tokens for one in found)
    seconds, dollars = [one.seconds for one in found], [one.usd for one in found]
    return Planned(
        stage.title,
        f"{missing:,} of {results:,} results; about {prompt:,} prompt tokens and {new:,} new ones",
        None if None in seconds else sum(one or 0.0 for one in seconds),
        None if None in dollars else sum(one or 0.0 for one in dollars),
    )


def _sums(study: Study, stages: Iterable[Planned]) -> Iterator[str]:
    seconds = [one.seconds for one in stages]
    known = sum(one or 0.0 for one in seconds)
    least = "at least " if None in seconds else ""
    yield f"Together {least}{duration(known)} if every stage runs again; finished ones are skipped."
    if usd := sum(one.usd or 0.0 for one in stages):
        yield f"Dollars: about {usd:,.2f}; a service's key max_cost_usd limits what a partition may cost."
    for model in study.models:
        if model.generates and model.n_parameters and not model.service:
            width = 4 if model.dtype == "float32" else 2
            yield f"Weights of {model.name} in memory: {model.n_parameters * width / 1e9:,.2f} GB ({model.dtype})."
    folder = next(path for path in (study.home.root, *study.home.root.parents) if path.exists())
    yield f"Disk: {shutil.disk_usage(folder).free / 1e9:,.0f} GB are free in {folder}."


@dataclass(frozen=True)
class Estimate:
    """Of `n_results` distinct results, `n_missing` are not in the row cache.

    `prompt_tokens` are those of the missing ones, a token taken for four bytes and a shared beginning counted each
    time; `new_tokens` take half of the most that each may have. `seconds` take a beginning that neighbours share once,
    and follow from `tokens_per_second`; `usd` from the service's price, or the device's price of an hour. Both are None
    where these are not known.
    """

    n_results: int
    n_missing: int
    prompt_tokens: int
    new_tokens: int
    seconds: float | None
    usd: float | None


def estimate(task: Task, scope: Scope, session: ModelSession) -> Estimate | None:
    """What one partition has still to compute; None where it is current, or imported.

    Errors: `LakeError` where an input is not made yet, `BackendError` where the model's files are missing.
    """
    model = scope.model
    if not model.generates or scope.lake.current(
        task.table, fingerprint_of(task, scope, session), scope.name
    ):
        return None
    works = distinct_works(task.plan(scope).items, session.identity(model)).works
    with cache_of(task, scope, session) as cache:
        there = cache.find(key for work in works for key in work.keys)
    missing = [(work, n) for work in works if (n := sum(key not in there for key in work.keys))]
    prompt_tokens = sum(work.size // BYTES_PER_TOKEN + 1 for work, _ in missing)
    new_tokens = sum(n * work.part_tokens for work, n in missing)
    ordered = itertools.pairwise(work.signature for work in in_order([work for work, _ in missing]))
    common_tokens = sum(common_bytes(*pair) // BYTES_PER_TOKEN for pair in ordered)
    speed = tokens_per_second(scope.lake, model)
    seconds = (prompt_tokens - common_tokens + new_tokens) / speed if speed else None
    usd, price = None, price_on(model, date.today())
    if price is not None:
        usd = float(price.exact_usd(prompt_tokens, new_tokens))
    elif model.device_hour_usd is not None and seconds is not None:
        usd = model.device_hour_usd * seconds / _SECONDS_PER_HOUR
    n_results, n_missing = sum(len(work.keys) for work in works), sum(n for _, n in missing)
    return Estimate(n_results, n_missing, prompt_tokens, new_tokens, seconds, usd)


def tokens_per_second(lake: Lake, model: Model) -> float | None:
    """Prompt and new tokens for each second of the model's device, shared ones left out, over its answers so far.

    Without any, what the model's size and the speed of this machine's processors let expect; None for a service, and
    where a GPU may answer.
    """
    tokens = seconds = 0.0
    for part in lake.partitions("answers"):
        if part.partition("|")[0] == model.name:
            columns = ["prompt_tokens", "new_tokens", "shared_tokens", "device_seconds"]
            rows = lake.read("answers", part, columns)
            read, written, shared, taken = (pc.sum(column).as_py() or 0 for column in rows.columns)
            tokens, seconds = tokens + read + written - shared, seconds + taken
    return tokens / seconds if seconds else _usual_rate(model)


@functools.cache
def _usual_rate(model: Model) -> float | None:
    """Two operations for each parameter and token, at the speed of a product of matrices on this machine's processors."""
    if model.backend != Model.backend:
        return None
    file = read_header(model, find_gguf(model)) if model.is_gguf else None
    n_parameters = model.n_parameters or (file.n_parameters if file else local_parameters(model))
    if n_parameters is None:
        return None
    import torch

    if model.device != "cpu" and torch.cuda.is_available():
        return None
    matrix = torch.rand(_SIDE, _SIDE)
    times = []
    for _ in range(3):
        started = time.perf_counter()
        matrix @ matrix
        times.append(time.perf_counter() - started)
    return _SHARE_OF_PRODUCT * 2 * _SIDE**3 / min(times) / (2 * n_parameters)
