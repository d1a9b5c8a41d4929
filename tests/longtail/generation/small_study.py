"""A study of few questions in a lake of its own, for tests."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from longtail.generation.engine.partition import generate
from longtail.generation.engine.session import ModelSession
from longtail.generation.engine.task import Task
from longtail.generation.latency import calibrate_latency
from longtail.generation.tasks.registry import TASKS
from longtail.relations.relation import relation_set
from longtail.storage.lake import Lake, Outcome
from longtail.study.datasets import Dataset
from longtail.study.models import Model
from longtail.study.prompts import Prompt, Sampling
from longtail.study.source import Popularity, Source
from longtail.study.study import Study

LOG = logging.getLogger("small_study")
ASKED = relation_set("popqa")[:5]


def small_study(folder: Path, path: str, **model: Any) -> Study:
    """One fake model by default; `model` changes its keys. State lies below `$LONGTAIL_HOME`."""
    return Study(
        name="small",
        description="for tests",
        source=Source(kind="sandbox", snapshot="2026-10"),
        datasets=(Dataset("sandbox"),),
        prompts=(
            Prompt("zero_shot"),
            Prompt("few_shot", shots=4, draw="per_question"),
            Prompt("zero_shot_popqa_tp", format="question_answer", generations=("paraphrases",)),
            Prompt("certainty", format="question_answer", generations=("samples",)),
        ),
        models=(Model(**{"name": "tiny", "path": path, "backend": "fake", "batch_tokens": 64, **model}),),
        methods=("closed_book", "genread", "bm25", "dense", "oracle"),
        popularity=Popularity(),
        sampling=Sampling(n=4),
        path=folder / "study.yaml",
    )


def fill_lake(lake: Lake, n_questions: int, labels: Mapping[int, str] | None = None) -> None:
    """Questions, paraphrases, (retrieved) passages; every seventh question has no oracle passage."""
    questions, paraphrases, passages, best = [], [], [], []
    for r, relation in enumerate(ASKED):
        for i in range(n_questions):
            number = r * n_questions + i
            subject = (labels or {}).get(number, f"Subject {number}")
            question_id = f"Q{number}-{relation.property_id}"
            key = {"dataset": "sandbox", "question_id": question_id}
            gold = f"Gold {number}"
            questions.append({
                **key, "relation": relation.name, "property_id": relation.property_id,
                "subject_id": f"Q{number}", "subject": subject, "subject_aliases": [],
                "question": relation.question(subject), "object_ids": [f"Q9{number}"], "objects": [gold],
                "gold_answers": [gold, f"{gold} the alias"],
            })  # fmt: skip
            for j, template in enumerate((relation.template, *relation.wordings)):
                text = template.replace("[subj]", subject)
                paraphrases.append({**key, "paraphrase_id": j, "template": template, "paraphrase": text})
            text = f"About the subject. {relation.sentence(subject, gold)} Its last sentence"
            passages.append({
                "passage_id": f"Q{number}-0", "entity_id": f"Q{number}", "title": subject, "position": 0,
                "text": text, "source": "sandbox",
            })  # fmt: skip
            best.append({
                **key, "paraphrase_id": 0, "rank": 1, "passage_id": f"Q{number}-0", "score": 1.0, "has_answer": True,
                "has_answer_popqa": True,
            })  # fmt: skip
    lake.write("questions", questions, fingerprint="f")
    lake.write("paraphrases", paraphrases, fingerprint="f")
    for table in ("passages", "cited_passages"):
        lake.write(table, passages, fingerprint="f")
    for retriever in ("bm25", "dense", "oracle"):
        some = [row for i, row in enumerate(best) if retriever != "oracle" or i % 7]
        rows = [{**row, "retriever": retriever} for row in some]
        lake.write("retrieved_passages", rows, fingerprint="f", partition=retriever)


def answer(study: Study, method: str = "closed_book", run_id: str = "run") -> Outcome:
    """Partition `tiny|method` of answers."""
    return made(study, TASKS["answers"], method, run_id=run_id)


def answer_in_other_words(study: Study) -> Outcome:
    """Partition `tiny` of paraphrase_answers."""
    return made(study, TASKS["paraphrase_answers"])


def sample(study: Study) -> Outcome:
    """Partition `tiny` of sampled_answers."""
    return made(study, TASKS["sampled_answers"])


def write_backgrounds(study: Study) -> Outcome:
    """Partition `tiny` of generated_passages."""
    return made(study, TASKS["generated_passages"])


def calibrate(study: Study) -> Outcome:
    """Partition `tiny` of single_latencies."""
    with ModelSession(LOG) as session:
        return calibrate_latency(study, Lake(study.home.lake), "tiny", session=session, run_id="run", log=LOG)


def made(study: Study, task: Task, method: str | None = None, run_id: str = "run") -> Outcome:
    """A partition of model `tiny`."""
    with ModelSession(LOG) as session:
        lake = Lake(study.home.lake)
        return generate(task, study, lake, "tiny", method, session=session, run_id=run_id, log=LOG)


MAKERS: Mapping[str, Callable[[Study], Outcome]] = {
    "answers": answer,
    "paraphrase_answers": answer_in_other_words,
    "sampled_answers": sample,
    "generated_passages": write_backgrounds,
}


def with_model(study: Study, **changes: Any) -> Study:
    """The study with keys of its model changed."""
    return dataclasses.replace(study, models=(dataclasses.replace(study.models[0], **changes),))
