"""The readers that a study fine-tunes: their checkpoints, and lake tables tuned_models and tuned_answers (SPEC §8).

A setting's checkpoints are folders `step_<n>` in `tuned_models/<setting>/<fingerprint>`. A folder appears whole, and has
the reader and the retriever as ordinary models, the losses, and beside the newest one the optimiser's moments. The
fingerprint covers all that decides the weights but not the number of steps: more steps continue a finished run. A
setting with another fingerprint is trained again.

A checkpoint is judged as an ordinary model, and its retriever searches the stored vectors. Candidates are scored as in
lake table candidate_answers: in two lists, the first of the likeliest wins.
Step 0 is the reader before training, judged on the same facts as the checkpoints. It is no checkpoint, and is never kept.
Settings that read as many passages share its judgement.
Checkpoints of a setting whose inputs have changed since stay, as another study may use them.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from longtail.embedding.declared import DeclaredEncoder
from longtail.embedding.settings import EncoderSettings
from longtail.embedding.vectors import lease_for_encoder
from longtail.errors import BackendError, SourceError
from longtail.generation.backends.base import Failure
from longtail.generation.backends.hf import FusionInDecoder
from longtail.generation.tasks.candidate_answers import rank_candidates, targets
from longtail.methods import Method
from longtail.models.weights import find_weights
from longtail.needs import Need
from longtail.progress import Progress
from longtail.prompt_formats import CLOZE_T5
from longtail.retrieval.base import load_retriever
from longtail.retrieval.indexes import Index
from longtail.storage.checksums import CHANGED, differences, record, seal, unseal
from longtail.storage.files import remove, remove_leftovers, whole
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome
from longtail.storage.ownership import only_one
from longtail.study.models import Model
from longtail.study.study import Study
from longtail.study.sweep import SCHEDULES, Setting, Sweep
from longtail.tuning.trainer import (
    HELD_OUT,
    MOMENTS,
    READER,
    Facts,
    FixedIndex,
    Losses,
    Query,
    Trainer,
    batch,
    read_facts,
    reader_of,
    retriever_of,
)

MODELS, ANSWERS = "tuned_models", "tuned_answers"
_TRAINING = "longtail.tuning.trainer"
_LOSSES = "losses.json"
_QUERIES = 64
"""Queries whose passages are in memory together."""
Rows = list[dict[str, Any]]


def needs_of_sweep(study: Study) -> Iterator[Need]:
    """None without a sweep."""
    if study.sweep is not None:
        yield Need("sweep.model", partial(check_trainable, study.model(study.sweep.model)))
        yield Need("sweep.dataset", partial(_check_cloze, study, study.sweep.dataset))


def _check_cloze(study: Study, name: str) -> None:
    if name not in [dataset.name for dataset in study.cloze_datasets]:
        raise SourceError(f"dataset {name} has no cloze queries; the sweep trains on those of format pararel")


def check_trainable(model: Model) -> None:
    """Errors: `BackendError` where a model's weights are not trained as the study loads them."""
    if (model.dtype, model.quantisation, model.device_map) != ("float32", "none", None):
        raise BackendError(
            f"model {model.name}: the sweep trains weights in dtype float32, without quantisation and device_map"
        )


@dataclass(frozen=True)
class _Run:
    """All that training and judging of one setting read. `base` is the model before the first step."""

    sweep: Sweep
    setting: Setting
    base: Model
    encoder: DeclaredEncoder
    index: FixedIndex
    facts: Facts
    folder: Path
    judged_by: str
    log: logging.Logger

    @property
    def baseline(self) -> Path:
        """The folder of all settings' predictions before training."""
        return self.folder.parents[1] / "untrained"

    def checkpoint(self, step: int) -> Path | None:
        return self.folder / f"step_{step}" if step else None


def tune(study: Study, lake: Lake, setting: str, log: logging.Logger) -> list[Outcome]:
    """Train and judge the reader of one setting; write its partitions of both tables.

    What an earlier run finished is not done again: whole checkpoints, and their judgements. Errors: `BackendError` where
    model or retriever cannot be trained, `LakeError` where facts are missing, `IndexMissingError` without the index.
    """
    if study.sweep is None:
        raise BackendError(f"{study.path}: there is no sweep")
    sweep, drawn = study.sweep, study.sweep.setting(setting)
    base, method = study.model(sweep.model), study.method(sweep.retriever)
    check_trainable(base)
    trained_by, judged_by = _stamps(study, lake, sweep, drawn, base, method)
    stamp = fingerprint(trained_by, judged_by, sweep.steps, sweep.patience, code_version(__name__))
    lock = study.home.locks / MODELS / f"{setting}.lock"
    tables: dict[str, Rows] = {}

    def rows_of(table: str) -> Computed:
        if not tables:
            folder = study.home.tuned_models / setting / trained_by[:16]
            facts, index = read_facts(study, lake, sweep, drawn), FixedIndex(study, lake, method, log)
            encoder = DeclaredEncoder(method.name, _settings(method))
            for other in folder.parent.glob("*"):
                if other != folder:
                    log.warning("setting %s: %s has checkpoints of other inputs, and stays", setting, other)
            run = _Run(sweep, drawn, base, encoder, index, facts, folder, judged_by[:16], log)
            tables.update(_tune_setting(run))
        return Computed(tables[table])

    with only_one(lock, f"setting {setting}: another process trains it; wait for it"):
        return [
            lake.materialise(table, fingerprint(table, stamp), partial(rows_of, table), setting)
            for table in (ANSWERS, MODELS)
        ]


def _settings(method: Method) -> EncoderSettings:
    """Those of the encoder of questions, which is trained; passages keep their vectors."""
    if not isinstance(method.settings, EncoderSettings):
        raise BackendError(f"method {method.name} has no encoder that could be trained")
    return dataclasses.replace(method.settings.of_queries, search=None)


def _stamps(
    study: Study, lake: Lake, sweep: Sweep, setting: Setting, base: Model, method: Method
) -> tuple[str, str]:
    """What decides the weights at a step, and what decides the judgement of given weights."""
    inputs = [lake.content(table) for table in ("questions", "paraphrases", "candidates")]
    retriever = load_retriever(method)
    index = Index.of(method, retriever, lake.content("passages"), study.home.indexes)
    inputs += [index.folder.name, retriever.search_version()]
    inputs += [sweep.dataset, str(sweep.held_out), sweep.schedule]
    if SCHEDULES[sweep.schedule].falls:  # else a checkpoint is the same, whatever number of steps follows
        inputs.append(str(sweep.steps))
    reader = (find_weights(base).revision, base.passage_tokens)
    trained_by = fingerprint(
        inputs, reader, dataclasses.asdict(setting), sweep.seed, sweep.every, code_version(_TRAINING)
    )
    judged = (sweep.judged_relations, sweep.judged_facts)
    return trained_by, fingerprint(inputs, judged, sweep.seed, code_version(__name__))


def _tune_setting(run: _Run) -> dict[str, Rows]:
    """The rows of both tables: checkpoint after checkpoint until the last, or until patience ends."""
    run.folder.mkdir(parents=True, exist_ok=True)
    for folder in (run.folder, run.baseline):
        remove_leftovers(folder)
    models: Rows = []
    answers: Rows = []
    steps = range(0, run.sweep.steps + 1, run.sweep.every)
    with Progress(run.log, f"{run.setting.name}: checkpoints", len(steps)) as progress:
        for step in steps:
            if step:
                _train(run, step)
            judged = _judgement(run, step)
            models.append(_row(run, step, judged))
            names = {"tuned_model": run.setting.name, "step": step, "dataset": run.sweep.dataset}
            answers += [names | row for row in judged]
            progress.add(1)
            if step and run.sweep.patience and len(models) - 1 - _best(models) >= run.sweep.patience:
                break
    best = _best(models)
    for place, row in enumerate(models):
        row["is_kept"] = place == best
    return {MODELS: models, ANSWERS: answers}


def _train(run: _Run, step: int) -> None:
    """Make the checkpoint of a step from the one before, unless it is there."""
    target, before = run.folder / f"step_{step}", run.checkpoint(step - run.sweep.every)
    if target.is_dir():
        for name, fault in differences(target).items():
            if fault == CHANGED:
                raise BackendError(
                    f"{target / name} {fault}: restore it, or delete {run.folder}, and the setting is trained again"
                )
        return
    schedule = SCHEDULES[run.sweep.schedule]
    learner = Trainer(run.base, run.encoder, run.setting, run.index, before, schedule, run.sweep.steps)
    losses: list[Losses] = []
    try:
        with Progress(run.log, f"{run.setting.name}: steps to {step}", run.sweep.every) as progress:
            for number in range(step - run.sweep.every, step):
                queries = batch(run.facts, run.setting, run.sweep.seed, number)
                losses.append(learner.step(queries, number, run.sweep.seed))
                progress.add(1)
        with whole(target) as folder:
            folder.mkdir()
            learner.save(folder)
            means = [sum(of_steps) / len(losses) for of_steps in zip(*losses, strict=True)]
            (folder / _LOSSES).write_text(json.dumps(Losses(*means)._asdict()), encoding="utf-8")
            record(folder)
    finally:
        learner.close()
    if before is not None:
        remove(before / MOMENTS)


def _judgement(run: _Run, step: int) -> Rows:
    if step:
        return _read_predictions(
            run, step, run.folder / f"step_{step}.{run.judged_by}.json", run.facts.judged
        )
    base = (find_weights(run.base).revision, run.base.passage_tokens)
    rows: Rows = []
    for split, queries in run.facts.judged.items():
        asked = [(query.question.question_id, query.paraphrase_id) for query in queries]
        name = fingerprint(run.judged_by, base, run.setting.passages, split, asked)
        rows += _read_predictions(run, step, run.baseline / f"{name[:16]}.json", {split: queries})
    return rows


def _row(run: _Run, step: int, judged: Sequence[dict[str, Any]]) -> dict[str, Any]:
    is_right = [row["is_correct"] for row in judged if row["split"] == HELD_OUT]
    row = {
        "tuned_model": run.setting.name,
        "step": step,
        "n_training_queries": len(run.facts.training),
        "n_held_out_queries": len(is_right),
        "held_out_right": sum(is_right) / len(is_right),
    }
    checkpoint = run.checkpoint(step)
    if checkpoint is None:
        return row
    losses = json.loads((checkpoint / _LOSSES).read_text(encoding="utf-8"))
    return row | {
        "loss": losses["reader"],
        "retriever_loss": losses["retriever"],
        "folder": str(checkpoint / READER),
        "folder_revision": find_weights(reader_of(run.base, checkpoint)).revision,
    }


def _best(models: Sequence[dict[str, Any]]) -> int:
    """The place of the checkpoint that is best on the held-out facts; of equal ones the first. Place 0 is none."""
    return max(range(1, len(models)), key=lambda place: (models[place]["held_out_right"], -place))


def _read_predictions(run: _Run, step: int, path: Path, judged: Mapping[str, Sequence[Query]]) -> Rows:
    """One row for each query that is judged: its split and key, the prediction, and its log-likelihood.

    `path`: the file of these rows, which is read if it is as it was written, and else written. Errors: `BackendError`
    where reader or encoder cannot be loaded, or a query cannot be read.
    """
    text = unseal(path)
    if text is None:
        text = json.dumps(_predictions(run, run.checkpoint(step), judged))
        with whole(path) as target:
            target.write_text(seal(text), encoding="utf-8")
    rows: Rows = json.loads(text)
    return rows


def _predictions(run: _Run, checkpoint: Path | None, judged: Mapping[str, Sequence[Query]]) -> Rows:
    reader, encoder = reader_of(run.base, checkpoint), retriever_of(run.encoder, checkpoint)
    backend = FusionInDecoder(reader)
    rows: Rows = []
    try:
        with (
            lease_for_encoder(reader.device, encoder.name) as device,
            Progress(
                run.log, f"{reader.name}: cloze queries judged", sum(map(len, judged.values()))
            ) as progress,
        ):
            for split, queries in judged.items():
                for start in range(0, len(queries), _QUERIES):
                    some = queries[start : start + _QUERIES]
                    texts = [f"{encoder.settings.query_prefix}{query.retriever_text}" for query in some]
                    vectors = encoder.load(device).encode(texts, run.log)
                    places = run.index.search(vectors, run.setting.passages, device)
                    passages = [run.index.texts(rows_of_query) for rows_of_query in places]
                    rows += [{"split": split} | row for row in _judge(backend, some, passages, run.facts)]
                    progress.add(len(some))
    finally:
        backend.close()
    return rows


def _judge(
    backend: FusionInDecoder, queries: Sequence[Query], passages: Sequence[Sequence[str]], facts: Facts
) -> Iterator[dict[str, Any]]:
    written = [targets(CLOZE_T5, facts.candidates[query.relation]) for query in queries]
    scores = backend.score([query.text for query in queries], written, passages=passages)
    for query, scored in zip(queries, scores, strict=True):
        if isinstance(scored, Failure):
            raise BackendError(f"{query.text!r} cannot be scored: {scored.reason}")
        names = facts.candidates[query.relation]
        best = rank_candidates(scored.scores, len(names))[0]
        prediction = names[best % len(names)]
        yield {
            "relation": query.relation,
            "question_id": query.question.question_id,
            "paraphrase_id": query.paraphrase_id,
            "prediction": prediction,
            "log_likelihood": scored.scores[best].log_likelihood,
            "is_correct": prediction in query.question.gold_answers,
        }
