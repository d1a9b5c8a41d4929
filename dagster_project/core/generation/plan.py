"""Which rows a partition holds, and the prompt of each: from the lake's tables to planned rows.

What belongs here: joining questions, paraphrases and passages into prompts, in the partition's order. What
does not: generating (`resume`), and turning generations into rows (`run`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from dagster_project.core.generation.demonstrations import Demonstrations
from dagster_project.core.generation.prompts import Passage, Question, bare_prompt, build_prompt
from dagster_project.core.lake import Lake
from dagster_project.core.study import RETRIEVERS, Study


@dataclass(frozen=True)
class PlannedRow:
    """One row to be: its key columns, its prompt, and the golds that will score it."""

    keys: Mapping[str, Any]
    prompt: str
    gold_answers: tuple[str, ...]

    @property
    def row_key(self) -> str:
        """The key columns in one text, for the quarantine."""
        names = ("dataset", "question_id", "paraphrase_id", "prompt")
        return "/".join(str(self.keys[name]) for name in names if name in self.keys)


@dataclass(frozen=True)
class Plan:
    """The rows of a partition, and how many questions (times prompts) had no passage to be asked with."""

    rows: tuple[PlannedRow, ...]
    n_without_passage: int = 0


def plan_answers(study: Study, lake: Lake, method: str) -> Plan:
    """Rows of `answers` for a method, ordered by dataset, prompt and question_id."""
    by_dataset = _questions(study, lake)
    passages = _first_passages(lake, method) if method in RETRIEVERS else None
    rows: list[PlannedRow] = []
    n_without = 0
    for dataset in sorted(by_dataset):
        records = by_dataset[dataset]
        asked = {record["question_id"]: _question(record) for record in records}
        pool = Demonstrations(dataset, asked.values(), study.seed)
        own = None if passages is None else passages.get(dataset, {})
        for prompt in sorted(study.answer_prompts, key=lambda p: p.name):
            for record in records:
                question = asked[record["question_id"]]
                if own is not None and question.question_id not in own:
                    n_without += 1
                    continue
                shown = pool.draw(question, prompt.shots, prompt.draw)
                built = build_prompt(question, prompt.format, method, shown, own)
                keys = {
                    "dataset": dataset,
                    "question_id": question.question_id,
                    "prompt": prompt.name,
                    "passage_id": built.passage_id,
                    "demonstration_ids": list(built.demonstration_ids),
                    "demonstration_passage_ids": list(built.demonstration_passage_ids),
                }
                rows.append(PlannedRow(keys, built.text, tuple(record["gold_answers"])))
    return Plan(tuple(rows), n_without)


def plan_paraphrase_answers(study: Study, lake: Lake) -> Plan:
    """Rows of `paraphrase_answers`, ordered by dataset, prompt, question_id and paraphrase_id."""
    golds = {
        (dataset, record["question_id"]): tuple(record["gold_answers"])
        for dataset, records in _questions(study, lake).items()
        for record in records
    }
    columns = ["dataset", "question_id", "paraphrase_id", "paraphrase"]
    order = [("dataset", "ascending"), ("question_id", "ascending"), ("paraphrase_id", "ascending")]
    by_dataset: dict[str, list[dict[str, Any]]] = {}
    for record in lake.read("paraphrases", columns=columns).sort_by(order).to_pylist():
        if (record["dataset"], record["question_id"]) in golds:
            by_dataset.setdefault(record["dataset"], []).append(record)
    rows = [
        PlannedRow(
            {
                "dataset": dataset,
                "question_id": record["question_id"],
                "paraphrase_id": record["paraphrase_id"],
                "prompt": prompt.name,
            },
            bare_prompt(record["paraphrase"], prompt.format),
            golds[dataset, record["question_id"]],
        )
        for dataset, records in by_dataset.items()
        for prompt in sorted(study.paraphrase_prompts, key=lambda p: p.name)
        for record in records
    ]
    return Plan(tuple(rows))


def _questions(study: Study, lake: Lake) -> dict[str, list[dict[str, Any]]]:
    """The study's questions by dataset, sorted by question_id."""
    columns = ["dataset", "question_id", "relation", "question", "objects", "gold_answers"]
    wanted = {dataset.name for dataset in study.datasets}
    found: dict[str, list[dict[str, Any]]] = {}
    for record in lake.read("questions", columns=columns).sort_by("question_id").to_pylist():
        if record["dataset"] in wanted:
            found.setdefault(record["dataset"], []).append(record)
    return found


def _question(record: Mapping[str, Any]) -> Question:
    answer = next(iter(record["objects"]), "")
    return Question(record["question_id"], record["relation"], record["question"], answer)


def _first_passages(lake: Lake, retriever: str) -> dict[str, dict[str, Passage]]:
    """Dataset → question_id → the retriever's best passage."""
    columns = ["dataset", "question_id", "rank", "passage_id"]
    best = lake.read("retrieved_passages", retriever, columns)
    best = best.filter(pc.equal(best["rank"], 1))
    passages = lake.read("passages", columns=["passage_id", "text", "source"])
    passages = passages.filter(pc.is_in(passages["passage_id"], best["passage_id"].combine_chunks()))
    by_id = {row["passage_id"]: Passage(**row) for row in passages.to_pylist()}
    found: dict[str, dict[str, Passage]] = {}
    for record in best.to_pylist():
        found.setdefault(record["dataset"], {})[record["question_id"]] = by_id[record["passage_id"]]
    return found
