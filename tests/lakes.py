"""Small synthetic lakes: every table filled, seeded, of any size, without a model or a network.

What belongs here: rows that look like those of a real study, with the awkward cases on request (ties, zero and missing
popularity, a relation of one question, a model that is always right). What does not: the sandbox, which is a world with
services. Answers are drawn so that memory helps popular questions and passages help rare ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

from dagster_project.core.lake import Lake
from dagster_project.core.questions.relations import RELATIONS
from dagster_project.core.study import Study, load_study
from dagster_project.core.tables import TABLES

MONTHS = tuple(f"2025-{month:02d}" for month in range(11, 13)) + tuple(
    f"2026-{month:02d}" for month in range(1, 13)
)
DIMENSIONS = 384
OBJECT_ID = "Q900000000"
_FALLBACK = {pa.string(): "", pa.bool_(): False, pa.int32(): 1, pa.int64(): 0, pa.float64(): 0.0}


@dataclass(frozen=True)
class LakePlan:
    """What a synthetic lake holds. `one_question_relation` gives the last relation a single question.

    `n_popularities`: subjects share that many distinct view counts, which makes ties; None draws each anew.
    `always_right`: models whose every answer is right. `absent`: (model, method) pairs without answers.
    """

    n_relations: int = 4
    n_questions_per_relation: int = 30
    datasets: tuple[str, ...] = ("popqa",)
    prompts: tuple[str, ...] = ("zero_shot",)
    models: tuple[str, ...] = ("small", "large")
    methods: tuple[str, ...] = ("closed_book", "bm25", "oracle")
    n_paraphrases: int = 2
    n_popularities: int | None = None
    share_missing: float = 0.1
    share_zero: float = 0.05
    one_question_relation: bool = False
    always_right: tuple[str, ...] = ()
    absent: tuple[tuple[str, str], ...] = ()
    with_answers: bool = True
    measure: str = "page_views"
    last_month: str | None = "2026-10"
    n_months: int = 12
    seed: int = 0


def make_study(folder: Path, plan: LakePlan) -> Study:
    """A study file in `folder` that declares what `plan` holds, loaded."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "study.yaml"
    last_month = {"last_month": plan.last_month} if plan.last_month else {}
    prompts = [{"name": name} for name in plan.prompts]
    declared = {
        "name": "synthetic",
        "description": "A synthetic lake",
        "source": {"kind": "sandbox", "snapshot": "2026-10"},
        "datasets": [{"name": name, "relations": _relation_names(plan)} for name in plan.datasets],
        "prompts": [*prompts, {"name": "popqa_tp", "format": "question_answer", "asks": ["paraphrases"]}],
        "models": [{"name": name, "path": name, "backend": "fake"} for name in plan.models],
        "methods": list(plan.methods),
        "popularity": {"measure": plan.measure, "n_months": plan.n_months, **last_month},
    }
    path.write_text(yaml.safe_dump(declared, sort_keys=False), encoding="utf-8")
    return load_study(path)


def make_lake(root: Path, plan: LakePlan) -> Lake:
    """Write every table of `plan` below `root`."""
    lake = Lake(root)
    lake.ensure_schemas()
    write_study_tables(lake, plan)
    rng = np.random.default_rng(plan.seed)
    questions = _questions(plan)
    subjects = sorted({question["subject_id"] for question in questions})
    _write_world(lake, plan, subjects, rng)
    _put(lake, "questions", questions)
    _put(lake, "paraphrases", _paraphrases(plan, questions))
    for retriever in (method for method in plan.methods if method != "closed_book"):
        _put(lake, "retrieved_passages", _retrieved(questions, retriever, rng), retriever)
    if plan.with_answers:
        _write_answers(lake, plan, questions, rng)
    return lake


def write_study_tables(lake: Lake, plan: LakePlan) -> None:
    """The tables that say what the study declares."""
    _put(
        lake,
        "models",
        [
            {
                "model": name,
                "family": "synthetic",
                "n_parameters": 10 ** (6 + i),
                "backend": "fake",
                "path": name,
                "dtype": "float32",
                "quantisation": "none",
            }
            for i, name in enumerate(plan.models)
        ],
    )
    _put(
        lake,
        "methods",
        [
            {"method": name, "is_parametric": name == "closed_book", "description": f"method {name}"}
            for name in plan.methods
        ],
    )
    prompts = [{"prompt": name, "format": "qa", "shots": 0, "asks": ["questions"]} for name in plan.prompts]
    _put(
        lake,
        "prompts",
        [*prompts, {"prompt": "popqa_tp", "format": "question_answer", "shots": 0, "asks": ["paraphrases"]}],
    )
    _put(
        lake,
        "datasets",
        [
            {"dataset": name, "source": "sandbox", "relations": _relation_names(plan), "snapshot": "2026-10"}
            for name in plan.datasets
        ],
    )
    _put(
        lake,
        "popularity_windows",
        [{"measure": plan.measure, "n_months": plan.n_months, "last_month": plan.last_month}],
    )


def fill(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """`row` with every column of `table` that it lacks: null where allowed, else an empty value of its type."""
    blank = {
        column.name: None if column.nullable else _FALLBACK.get(column.type, [])
        for column in TABLES[table].columns
    }
    return {**blank, **row}


def embedding(text: str) -> list[float]:
    """A unit vector that depends on the text alone."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    vector = np.random.default_rng(seed).normal(size=DIMENSIONS) + 1.0
    return list((vector / np.linalg.norm(vector)).astype(np.float32))


def _relation_names(plan: LakePlan) -> list[str]:
    return [relation.name for relation in RELATIONS[: plan.n_relations]]


def _questions(plan: LakePlan) -> list[dict[str, Any]]:
    rows = []
    for dataset in plan.datasets:
        for number, relation in enumerate(RELATIONS[: plan.n_relations]):
            last = number == plan.n_relations - 1
            n = 1 if last and plan.one_question_relation else plan.n_questions_per_relation
            for i in range(n):
                subject_id = f"Q{number * 100_000 + i + 1}"
                rows.append(
                    fill(
                        "questions",
                        {
                            "dataset": dataset,
                            "question_id": f"{subject_id}-{relation.property_id}",
                            "relation": relation.name,
                            "property_id": relation.property_id,
                            "subject_id": subject_id,
                            "subject": f"Subject {subject_id}",
                            "question": relation.question(f"Subject {subject_id}"),
                            "object_ids": [OBJECT_ID],
                            "objects": ["Gold"],
                            "gold_answers": ["Gold", 'it\'s "gold"'],
                        },
                    )
                )
    return rows


def _paraphrases(plan: LakePlan, questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "dataset": q["dataset"],
            "question_id": q["question_id"],
            "paraphrase_id": i,
            "template": f"{i}: [subj]?",
            "paraphrase": f"{i}: {q['subject']}?",
        }
        for q in questions
        for i in range(plan.n_paraphrases + 1)
    ]


def _write_world(lake: Lake, plan: LakePlan, subjects: Sequence[str], rng: np.random.Generator) -> None:
    _put(
        lake,
        "entities",
        [
            fill(
                "entities",
                {
                    "entity_id": subject,
                    "label": f"Subject {subject}",
                    "sitelinks": int(rng.integers(0, 300)),
                    "article_title": f"Subject {subject}",
                    "source": "sandbox",
                },
            )
            for subject in [*subjects, OBJECT_ID]
        ],
    )
    _put(
        lake,
        "triples",
        [
            {
                "subject_id": subject,
                "property_id": "P106",
                "object_id": OBJECT_ID,
                "relation": "occupation",
                "source": "sandbox",
            }
            for subject in subjects
        ],
    )
    _put(
        lake,
        "passages",
        [
            fill(
                "passages",
                {"passage_id": f"{subject}-0", "entity_id": subject, "title": subject, "text": "A passage."},
            )
            for subject in subjects
        ],
    )
    views = [_mean_views(plan, subject, rng) for subject in subjects]
    for month in MONTHS:
        rows = [
            _month_row(subject, month, level, plan, rng)
            for subject, level in zip(subjects, views, strict=True)
        ]
        _put(lake, "page_views", [row for row in rows if row is not None], month)


def fame(subject_id: str) -> float:
    """How well a subject is known, in [0, 1): popularity and memory both follow it."""
    return int(hashlib.sha256(subject_id.encode()).hexdigest()[:8], 16) / 16**8


def finds(retriever: str, subject_id: str) -> bool:
    """Whether a retriever finds a passage about a subject: nine times in ten."""
    return fame(f"{retriever} {subject_id}") < 0.9


def _mean_views(plan: LakePlan, subject: str, rng: np.random.Generator) -> float | None:
    """Monthly level of a subject, over six decades: None = missing, or 0 in some cases."""
    state = rng.uniform()
    if state < plan.share_missing:
        return None
    if state < plan.share_missing + plan.share_zero:
        return 0.0
    known, steps = fame(subject), plan.n_popularities
    return float(round(10 ** (6 * (int(known * steps) / steps if steps else known))))


def _month_row(
    subject: str, month: str, level: float | None, plan: LakePlan, rng: np.random.Generator
) -> dict[str, Any] | None:
    """One month of one subject. Ties need constant views; otherwise they drift, and some months have no row."""
    draw = float(rng.uniform())
    if level is None:
        return (
            None
            if draw < 0.5
            else fill("page_views", {"entity_id": subject, "month": month, "source": "sandbox"})
        )
    if plan.n_popularities is None and draw < 0.05:
        return None
    views = level if plan.n_popularities else round(level * (0.8 + 0.4 * draw))
    return fill(
        "page_views", {"entity_id": subject, "month": month, "views": int(views), "source": "sandbox"}
    )


def _retrieved(
    questions: Sequence[dict[str, Any]], retriever: str, rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    for question in questions:
        if not finds(retriever, question["subject_id"]):
            continue
        for rank in (1, 2):
            has_answer = bool(retriever == "oracle" or rng.uniform() < 0.6)
            passage_id = f"{question['subject_id']}-0" if rank == 1 else "Q1-0"
            yield fill(
                "retrieved_passages",
                {
                    "dataset": question["dataset"],
                    "question_id": question["question_id"],
                    "retriever": retriever,
                    "rank": rank,
                    "passage_id": passage_id,
                    "has_answer": has_answer or passage_id == "Q1-0",
                    "has_answer_popqa": has_answer,
                },
            )


def _write_answers(
    lake: Lake, plan: LakePlan, questions: Sequence[dict[str, Any]], rng: np.random.Generator
) -> None:
    texts: set[str] = {""}
    for size, model in enumerate(plan.models):
        for method in plan.methods:
            if (model, method) in plan.absent:
                continue
            rows = [
                row
                for prompt in plan.prompts
                for row in _answers(plan, questions, model, size, method, prompt, rng)
            ]
            _put(lake, "answers", rows, f"{model}|{method}")
        rows = list(_paraphrase_answers(plan, questions, model, rng))
        texts.update(row["prediction"] for row in rows)
        _put(lake, "paraphrase_answers", rows, model)
    _put(
        lake,
        "answer_embeddings",
        [{"text": text, "embedding": embedding(text), "encoder": "synthetic"} for text in sorted(texts)],
    )


def _answers(
    plan: LakePlan,
    questions: Sequence[dict[str, Any]],
    model: str,
    size: int,
    method: str,
    prompt: str,
    rng: np.random.Generator,
) -> Iterator[dict[str, Any]]:
    for question in questions:
        found = method != "closed_book" and finds(method, question["subject_id"])
        if method == "oracle" and not found:
            continue
        known = fame(question["subject_id"]) * (size + 1) / len(plan.models)
        chance = 0.1 + 0.8 * known if method == "closed_book" else 0.55
        correct = model in plan.always_right or bool(rng.uniform() < chance)
        yield fill(
            "answers",
            {
                "dataset": question["dataset"],
                "question_id": question["question_id"],
                "model": model,
                "method": method,
                "prompt": prompt,
                "passage_id": f"{question['subject_id']}-0" if found else None,
                **_generated("Gold" if correct else "Lead", correct, rng),
            },
        )


def _paraphrase_answers(
    plan: LakePlan, questions: Sequence[dict[str, Any]], model: str, rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    for i, question in enumerate(questions):
        for paraphrase_id in range(plan.n_paraphrases + 1):
            if i == 0 and paraphrase_id == 1:
                continue
            text = str(rng.choice(["Gold", "Lead", "Iron", ""]))
            yield fill(
                "paraphrase_answers",
                {
                    "dataset": question["dataset"],
                    "question_id": question["question_id"],
                    "model": model,
                    "paraphrase_id": paraphrase_id,
                    "prompt": "popqa_tp",
                    **_generated(text, text == "Gold", rng),
                },
            )


def _generated(text: str, correct: bool, rng: np.random.Generator) -> dict[str, Any]:
    return {
        "prediction": text,
        "raw_text": text,
        "is_correct": correct,
        "is_correct_normalized": correct,
        "is_correct_case_sensitive": correct and bool(rng.uniform() < 0.9),
        "is_exact_match": correct,
        "token_f1": float(correct),
        "rouge_l": float(correct),
        "engine": "fake",
        "revision": "r1",
        "dtype": "float32",
        "quantisation": "none",
        "run_id": "run",
        "latency_ms": float(rng.uniform(1, 9)),
    }


def _put(lake: Lake, table: str, rows: Any, partition: str = "all") -> None:
    lake.write(table, [fill(table, row) for row in rows], fingerprint="synthetic", partition=partition)


def without_answers(plan: LakePlan) -> LakePlan:
    """The same study before anything was answered."""
    return replace(plan, with_answers=False)
