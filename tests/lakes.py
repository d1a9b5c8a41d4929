"""Small synthetic lakes: every table has rows, from a seed, in any size, without a model or a network."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from longtail.methods import METHODS
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.study.study import Study
from longtail.study.tables import describe_study
from tests.lake_rows import (
    OBJECT_ID,
    SAMPLE_TEMPERATURE,
    SHOTS,
    answer_rows,
    embedding,
    fill,
    generated_passage_rows,
    mean_views,
    month_row,
    paraphrase_answer_rows,
    paraphrase_rows,
    passage_row,
    question_rows,
    relation_names,
    retrieved_for_paraphrases,
    retrieved_rows,
    sampled_answer_rows,
    single_latency_rows,
    with_reused,
)

MONTHS = (*(f"2025-{month}" for month in (11, 12)), *(f"2026-{month:02d}" for month in range(1, 13)))


@dataclass(frozen=True)
class LakePlan:
    """The contents of a synthetic lake. `one_question_relation` gives the last relation a single question.
    `n_questions_of_others`: those of a relation in every dataset but the first; None: as many.

    `n_popularities`: the number of distinct view counts that the subjects share, which makes ties; None draws each
    one. `always_right`: models whose answers are all right. `absent`: (model, method) pairs without answers. Prompt
    `few_shot` has demonstrations. For models in `priced`, a device hour has a price. `services` charge for each row
    and have no device seconds. `timed` models have calibrated latencies, with the first prompt and the paraphrases'
    prompt.
    """

    n_relations: int = 4
    n_questions_per_relation: int = 30
    n_questions_of_others: int | None = None
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
    priced: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    timed: tuple[str, ...] = ()
    n_samples: int = 3
    with_answers: bool = True
    measure: str = "page_views"
    last_month: str | None = "2026-10"
    n_months: int = 12
    seed: int = 0


def make_study(folder: Path, plan: LakePlan) -> Study:
    """A loaded study file in `folder` that declares the contents of `plan`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "study.yaml"
    last_month = {"last_month": plan.last_month} if plan.last_month else {}
    prompts = [
        {"name": name, **({"shots": SHOTS, "draw": "per_question"} if name == "few_shot" else {})}
        for name in plan.prompts
    ]
    declared = {
        "name": "synthetic",
        "description": "A synthetic lake",
        "source": {"kind": "sandbox", "snapshot": "2026-10"},
        "datasets": [{"name": name, "relations": relation_names(plan)} for name in plan.datasets],
        "prompts": [
            *prompts,
            {"name": "popqa_tp", "format": "question_answer", "generations": ["paraphrases", "samples"]},
        ],
        "sampling": {"n": plan.n_samples, "temperature": SAMPLE_TEMPERATURE},
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
    questions = question_rows(plan)
    subjects = sorted({question["subject_id"] for question in questions})
    _write_world(lake, plan, subjects, rng)
    _put(lake, "questions", questions)
    _put(lake, "paraphrases", paraphrase_rows(plan, questions))
    for retriever in (method for method in plan.methods if not METHODS[method].is_parametric):
        found = [
            *retrieved_rows(questions, retriever, rng),
            *retrieved_for_paraphrases(plan, questions, retriever),
        ]
        _put(lake, "retrieved_passages", found, retriever)
    if plan.with_answers:
        _write_answers(lake, plan, questions, rng)
    return lake


def write_study_tables(lake: Lake, plan: LakePlan) -> None:
    """Write the tables that restate the study, as the platform does; of models, `plan` says what the study does not."""
    with tempfile.TemporaryDirectory() as folder:
        describe_study(make_study(Path(folder), plan), lake)
    models = lake.read("models").to_pylist()
    for size, model in enumerate(models):
        model |= {"family": "synthetic", "n_parameters": 10 ** (6 + size), "dtype": "float32"}
        model |= {"backend": "openai"} if model["model"] in plan.services else {}
        model |= {"device_hour_usd": 3.6} if model["model"] in plan.priced else {}
    _put(lake, "models", models)
    prices = {"2026-01-01": 0.5, "2026-07-01": 0.25}
    _put(lake, "model_prices", [
        {"model": name, "valid_from": day, "prompt_usd_per_million": usd, "completion_usd_per_million": 4 * usd}
        for name in plan.services
        for day, usd in prices.items()
    ])  # fmt: skip


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
    for table in ("passages", "cited_passages"):
        _put(lake, table, [passage_row(subject) for subject in subjects])
    views = [mean_views(plan, subject, rng) for subject in subjects]
    for month in MONTHS:
        rows = [
            month_row(subject, month, level, plan, rng)
            for subject, level in zip(subjects, views, strict=True)
        ]
        _put(lake, "page_views", [row for row in rows if row is not None], month)


def _write_answers(
    lake: Lake, plan: LakePlan, questions: Sequence[dict[str, Any]], rng: np.random.Generator
) -> None:
    for size, model in enumerate(plan.models):
        for method in plan.methods:
            if (model, method) in plan.absent:
                continue
            rows = [
                {**row, "generated_for": f"answers {model} {method}"}
                for prompt in plan.prompts
                for row in answer_rows(plan, questions, model, size, method, prompt, rng)
            ]
            if method == "oracle" and (model, "bm25") not in plan.absent:
                rows = with_reused(rows, lake.read("answers", f"{model}|bm25").to_pylist())
            _put(lake, "answers", rows, f"{model}|{method}")
        if model in plan.timed:
            timed = (plan.prompts[0], "popqa_tp")
            times = single_latency_rows(model, plan.methods, timed, questions, plan.seed)
            _put(lake, "single_latencies", times, model)
        if "genread" in plan.methods:
            _put(lake, "generated_passages", generated_passage_rows(plan, questions, model, rng), model)
        asked = list(paraphrase_answer_rows(plan, questions, model, rng))
        sampled = list(sampled_answer_rows(plan, questions, model, rng))
        _put(lake, "paraphrase_answers", asked, model)
        _put(lake, "sampled_answers", sampled, model)
        texts = sorted({row["prediction"] for row in [*asked, *sampled]})
        vectors = [{"model": model, "text": text, "embedding": embedding(text)} for text in texts]
        _put(lake, "answer_embeddings", [row | {"encoder": "synthetic"} for row in vectors], model)


def _put(lake: Lake, table: str, rows: Any, partition: str = "all") -> None:
    lake.write(table, [fill(table, row) for row in rows], fingerprint="synthetic", partition=partition)
