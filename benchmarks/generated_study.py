"""A generated study of PopQA's size: its study file and every lake table that a warehouse is built from.

Memory helps with known subjects, passages help with rare ones. The texts mean nothing. Prompts are hashed in the same
way as in generation, so that the tests of the warehouse pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import yaml

from longtail.generation.prompts.build import block, text_as_read
from longtail.methods import Method
from longtail.prompt_formats import BACKGROUND_TEMPLATE, FORMATS
from longtail.relations.relation import relation_set
from longtail.storage.fingerprints import prompt_hash
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.study.study import Study
from longtail.study.tables import describe_study
from longtail.tables import TABLES

ASKED_BY = ("closed_book", "genread", "bm25", "dense")
FURTHER = {f"bm25_{name}": {"b": b} for name, b in (("low", 0.25), ("middle", 0.5), ("high", 1.0))}
"""Retrievers of a study of seven methods beside these four, with their settings."""
MONTHS = tuple(f"2026-{month:02d}" for month in range(1, 13))
DATASET, PROMPT, PARAPHRASED = "popqa", "zero_shot", "zero_shot_popqa_tp"
TOP_K = 5
_N_OBJECTS = 5_000
_MISSING, _ZERO = 0.03, 0.01
_WORDS = (
    "river",
    "studio",
    "album",
    "born",
    "village",
    "novel",
    "north",
    "award",
    "season",
    "council",
    "bridge",
)

Values = npt.NDArray[Any]


@dataclass(frozen=True)
class World:
    """The questions of a study and their properties: lists and arrays of equal length, one element per question."""

    rows: list[dict[str, Any]]
    gold: Values
    fame: Values
    passage: dict[str, Values]
    passage_texts: list[str]
    labels: pa.Array

    def __len__(self) -> int:
        return len(self.rows)


def write_study(folder: Path, times: float, n_models: int, further: bool = False) -> Study:
    """A study file in `folder`: PopQA's relations, each with its number of questions times `times`.

    `further`: also with the methods of `FURTHER`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "study.yaml"
    declared = {
        "name": "generated",
        "description": f"A generated lake, {times} times the size of PopQA",
        "source": {"kind": "sandbox", "snapshot": MONTHS[-1]},
        "datasets": [{"name": DATASET}],
        "prompts": [
            {"name": PROMPT},
            {"name": PARAPHRASED, "format": "question_answer", "generations": ["paraphrases"]},
        ],
        "models": [
            {"name": f"model_{i:03d}", "path": "none", "backend": "fake", "n_parameters": 10**8 * (i + 1),
             "device_hour_usd": 1.0}
            for i in range(n_models)
        ],
        "methods": [*ASKED_BY, *(FURTHER if further else ())],
        "popularity": {"measure": "page_views", "n_months": 12, "last_month": MONTHS[-1]},
    }  # fmt: skip
    if further:
        declared["retrievers"] = [{"name": name, "kind": "bm25", **keys} for name, keys in FURTHER.items()]
    path.write_text(yaml.safe_dump(declared, sort_keys=False), encoding="utf-8")
    return load_study(path)


def write_lake(study: Study, times: float, seed: int = 0) -> dict[str, int]:
    """Write the lake of `study`; returns the rows of each table that scales."""
    lake = Lake(study.home.lake)
    lake.ensure_schemas()
    describe_study(study, lake)
    rng = np.random.default_rng(seed)
    world = _world(times, [name for name in study.methods if not study.method(name).is_parametric], rng)
    tables = list(_world_tables(world, rng))
    for size, model in enumerate(study.models):
        skill = (size + 1) / len(study.models)
        tables += list(_model_tables(world, study, model.name, skill, rng))
        while tables:
            name, partition, columns = tables.pop()
            lake.write(name, lake_table(name, columns), fingerprint="generated", partition=partition)
    return {name: lake.read_all(name, ["question_id"]).num_rows
            for name in ("questions", "answers", "paraphrase_answers")}  # fmt: skip


def _world(times: float, retrievers: Sequence[str], rng: np.random.Generator) -> World:
    rows: list[dict[str, Any]] = []
    for number, relation in enumerate(relation_set("popqa")):
        for i in range(max(1, round(times * relation.published_questions))):
            subject_id = f"Q{1_000_000 * (number + 1) + i}"
            subject = f"Subject {subject_id}"
            rows.append({
                "question_id": f"{subject_id}-{relation.property_id}", "relation": relation.name,
                "property_id": relation.property_id, "subject_id": subject_id, "subject": subject,
                "question": relation.question(subject), "n_paraphrases": len(relation.wordings),
            })  # fmt: skip
    n = len(rows)
    passage = {name: np.where(rng.random(n) < 0.8, np.arange(n), rng.integers(0, n, n))
               for name in retrievers}  # fmt: skip
    words = rng.choice(_WORDS, (n, 60))
    texts = [f"{row['subject']} is known. {' '.join(row_words)}. And th"
             for row, row_words in zip(rows, words, strict=True)]  # fmt: skip
    labels = pa.array([f"Object {i}" for i in range(_N_OBJECTS)])
    return World(rows, rng.integers(0, _N_OBJECTS, n), rng.random(n), passage, texts, labels)


def _world_tables(world: World, rng: np.random.Generator) -> Iterator[tuple[str, str, dict[str, Any]]]:
    rows, golds = world.rows, world.gold.tolist()
    names = ("question_id", "relation", "property_id", "subject_id", "subject", "question")
    own = {name: [row[name] for row in rows] for name in names}
    objects = [f"O{gold}" for gold in golds]
    labels = world.labels.to_pylist()
    yield "questions", "all", own | {
        "dataset": DATASET, "object_ids": [[o] for o in objects], "objects": [[labels[g]] for g in golds],
        "gold_answers": [[labels[g], f"{labels[g]} alias"] for g in golds],
    }  # fmt: skip
    yield "triples", "all", {
        "subject_id": own["subject_id"], "property_id": own["property_id"], "object_id": objects,
        "relation": own["relation"], "source": "sandbox",
    }  # fmt: skip
    subjects = sorted(set(own["subject_id"]))
    ids = [*subjects, *(f"O{i}" for i in range(_N_OBJECTS))]
    yield "entities", "all", {
        "entity_id": ids, "label": ids, "article_title": ids, "sitelinks": rng.integers(0, 300, len(ids)),
        "source": "sandbox",
    }  # fmt: skip
    asked = [(row, i) for row in rows for i in range(row["n_paraphrases"] + 1)]
    yield "paraphrases", "all", {
        "dataset": DATASET, "question_id": [row["question_id"] for row, _ in asked],
        "paraphrase_id": [i for _, i in asked], "template": [f"{row['relation']} {i} of [subj]?" for row, i in asked],
        "paraphrase": [wording(row, i) for row, i in asked],
    }  # fmt: skip
    yield from _passage_tables(world, rng)
    yield from _page_views(world, rng)


def wording(row: dict[str, Any], paraphrase_id: int) -> str:
    """The text of one paraphrase of a question; 0 = the question itself."""
    return f"{row['question']} ({paraphrase_id})" if paraphrase_id else str(row["question"])


def _passage_tables(world: World, rng: np.random.Generator) -> Iterator[tuple[str, str, dict[str, Any]]]:
    n = len(world)
    ids = np.array([f"{row['subject_id']}-0" for row in world.rows])
    questions = [row["question_id"] for row in world.rows]
    for table in ("passages", "cited_passages"):
        yield table, "all", {
            "passage_id": ids, "entity_id": [row["subject_id"] for row in world.rows],
            "title": [row["subject"] for row in world.rows], "position": 0, "text": world.passage_texts,
            "source": "sandbox",
        }  # fmt: skip
    for retriever, first in world.passage.items():
        others = (first[:, None] + np.arange(1, TOP_K) * 7) % n
        hits = rng.random((n, TOP_K)) < 0.4
        yield "retrieved_passages", retriever, {
            "dataset": DATASET, "question_id": np.repeat(questions, TOP_K), "paraphrase_id": 0, "retriever": retriever,
            "rank": np.tile(np.arange(1, TOP_K + 1), n),
            "passage_id": ids[np.column_stack([first, others]).ravel()],
            "score": -np.tile(np.arange(1.0, TOP_K + 1), n), "has_answer": hits.ravel(),
            "has_answer_popqa": hits.ravel(),
        }  # fmt: skip


def _page_views(world: World, rng: np.random.Generator) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Popularity rises with fame over five decades. Some subjects have unknown views, some have zero views."""
    subjects = [row["subject_id"] for row in world.rows]
    state = rng.random(len(world))
    level = np.where(state < _MISSING + _ZERO, 0.0, 10 ** (1 + 5 * world.fame))
    for month in MONTHS:
        views = np.round(level * rng.uniform(0.8, 1.25, len(world))).astype(np.int64)
        yield "page_views", month, {
            "entity_id": subjects, "article_title": subjects, "month": month,
            "views": pa.array(views, mask=state < _MISSING), "source": "sandbox",
        }  # fmt: skip


def _model_tables(
    world: World, study: Study, model: str, skill: float, rng: np.random.Generator
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    questions = [row["question_id"] for row in world.rows]
    nothing: list[list[str]] = [[] for _ in world.rows]
    for method in map(study.method, study.methods):
        from_memory = method.is_parametric
        chance = 0.05 + 0.8 * skill * world.fame if from_memory else 0.55 - 0.15 * world.fame
        passage_ids, prompts = _prompts(world, model, method)
        yield "answers", f"{model}|{method.name}", {
            "dataset": DATASET, "question_id": questions, "model": model, "method": method.name, "prompt": PROMPT,
            "passage_id": passage_ids, "passage_ids": passage_ids and [[one] for one in passage_ids],
            "demonstration_ids": nothing, "demonstration_passage_ids": nothing,
            "prompt_hash": [prompt_hash(p) for p in prompts],
            **_scored(world, world.gold, chance, rng), **accounts(len(world), rng),
        }  # fmt: skip
    ways = len(study.methods)
    yield "single_latencies", model, {
        "dataset": DATASET, "question_id": np.repeat(questions[:50], ways).tolist(), "model": model,
        "method": list(study.methods) * len(questions[:50]), "prompt": PROMPT,
        "single_latency_ms": rng.uniform(15, 25, ways * len(questions[:50])),
        "round_number": np.repeat(np.arange(len(questions[:50])), ways),
        "turn": np.tile(np.arange(ways), len(questions[:50])),
        "device": "cpu", "engine": "generated", "run_id": "generated",
    }  # fmt: skip
    yield "generated_passages", model, {
        "dataset": DATASET, "question_id": questions, "model": model,
        "passage_id": [f"genread:{model}:{q}" for q in questions], "text": world.passage_texts,
        "has_answer": rng.random(len(world)) < 0.3, "has_answer_popqa": rng.random(len(world)) < 0.3,
        "prompt_hash": [prompt_hash(BACKGROUND_TEMPLATE.replace("{question}", row["question"])) for row in world.rows],
        "raw_text": world.passage_texts, **accounts(len(world), rng),
    }  # fmt: skip
    counts = np.array([row["n_paraphrases"] + 1 for row in world.rows])
    of = np.repeat(np.arange(len(world)), counts)
    number = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    template = FORMATS["question_answer"]
    hashes = [prompt_hash(template.replace("{question}", wording(world.rows[i], k)))
              for i, k in zip(of.tolist(), number.tolist(), strict=True)]  # fmt: skip
    vectors = rng.normal(size=(_N_OBJECTS, 384)).astype(np.float32) + 0.5
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    yield "answer_embeddings", model, {
        "model": model, "text": world.labels, "encoder": "generated",
        "embedding": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 384),
    }  # fmt: skip
    yield "paraphrase_answers", model, {
        "dataset": DATASET, "question_id": pa.array(questions).take(pa.array(of)), "paraphrase_id": number,
        "model": model, "prompt": PARAPHRASED, "demonstration_ids": [[]] * len(of), "prompt_hash": hashes,
        **_scored(world, world.gold[of], 0.1 + 0.6 * skill * world.fame[of], rng), **accounts(len(of), rng),
    }  # fmt: skip


def _prompts(world: World, model: str, method: Method) -> tuple[list[str] | None, list[str]]:
    """Passage ids (None for closed_book) and prompt texts of one method."""
    template = FORMATS["qa"]
    if method.name == "closed_book":
        return None, [block(template, row["question"], "") for row in world.rows]
    if method.name == "genread":
        ids = [f"genread:{model}:{row['question_id']}" for row in world.rows]
        texts: Sequence[str] = world.passage_texts
    else:
        first = world.passage[method.name].tolist()
        ids = [f"{world.rows[i]['subject_id']}-0" for i in first]
        texts = [text_as_read(world.passage_texts[i], "sandbox", method) for i in first]
    return ids, [block(template, row["question"], text) for row, text in zip(world.rows, texts, strict=True)]


def _scored(world: World, gold: Values, chance: Values, rng: np.random.Generator) -> dict[str, Any]:
    correct = rng.random(len(gold)) < chance
    wrong = (gold + rng.integers(1, 20, len(gold))) % _N_OBJECTS
    texts = world.labels.take(pa.array(np.where(correct, gold, wrong)))
    return {
        "prediction": texts, "raw_text": texts, "is_declined": False, "is_correct": correct,
        "is_correct_case_sensitive": correct,
        "is_correct_normalized": correct, "is_exact_match": correct, "token_f1": correct.astype(float),
        "rouge_l": correct.astype(float),
    }  # fmt: skip


def accounts(n: int, rng: np.random.Generator) -> dict[str, Any]:
    seconds = rng.uniform(0.001, 0.01, n)
    return {
        "prompt_tokens": rng.integers(10, 200, n), "shared_tokens": rng.integers(0, 10, n),
        "new_tokens": rng.integers(1, 15, n), "n_truncated_tokens": 0, "latency_ms": 1000 * seconds,
        "batch_size": 64, "device_seconds": seconds, "cost_usd": seconds / 3600, "engine": "generated",
        "revision": "generated", "dtype": "float32", "quantisation": "none", "seed": 0, "is_reused": False,
        "generated_for": "generated", "run_id": "generated", "code_version": "generated",
    }  # fmt: skip


def lake_table(name: str, columns: dict[str, Any]) -> pa.Table:
    """A lake table from columns: arrays, or one value for all rows; columns left out are null."""
    n = next(len(value) for value in columns.values() if not isinstance(value, str | int | float))
    arrays = []
    for field in TABLES[name].schema:
        value = columns.get(field.name)
        if value is None and not field.nullable and pa.types.is_list(field.type):
            arrays.append(pa.ListArray.from_arrays([0] * (n + 1), pa.array([], field.type.value_type)))
        elif value is None or isinstance(value, str | int | float):
            arrays.append(pa.repeat(pa.scalar(value, field.type), n))
        else:
            array = value if isinstance(value, pa.Array) else pa.array(value)
            arrays.append(array.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=TABLES[name].schema)
