"""A generated ParaRel: its files, studies of it, and the predictions of a model that has never run."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.generated_study import accounts, lake_table
from longtail.imports.formats.questions.pararel import FACTS, PATTERNS
from longtail.prompt_formats import CLOZE_T5
from longtail.questions.build import build_paraphrases, build_questions, describe_cloze_queries
from longtail.relations.cloze import put_sentinel
from longtail.storage.fingerprints import prompt_hash
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.study.study import Study
from longtail.study.tables import describe_study

Row = dict[str, Any]
Relation = tuple[int, int, int]
"""How many patterns, facts and candidates it has."""
PARAREL: tuple[Relation, ...] = (
    (3, 912, 96), (13, 779, 229), (9, 958, 97), (4, 959, 5), (14, 471, 251), (9, 900, 47), (6, 485, 15),
    (9, 649, 250), (13, 571, 97), (11, 821, 31), (4, 378, 42), (4, 616, 194), (3, 775, 209), (6, 859, 25),
    (20, 461, 285), (4, 432, 10), (10, 801, 190), (12, 925, 43), (16, 588, 23), (4, 671, 122), (17, 53, 12),
    (2, 764, 262), (4, 900, 396), (2, 746, 280), (18, 857, 42), (11, 801, 19), (5, 203, 25), (9, 950, 112),
    (5, 853, 93), (1, 664, 168), (4, 513, 6), (14, 179, 164), (8, 924, 38),
)  # fmt: skip
"""The 33 shipped relations with patterns and facts: 177,027 queries."""
DATASET, PROMPT, MODEL, METHOD = "pararel", "cloze", "asked", "closed_book"
_LEMMAS = ("be", "lie", "locate", "find", "know")
_LINKED = 3
"""Every third subject has popularity."""
_KNOWS, _AGREES = 0.4, 0.6
"""How often a fact's usual prediction is right, and how often a pattern gets it."""


def write_study(
    folder: Path, relations: Sequence[Relation], labels: Sequence[str], prompt_format: str, model: Row
) -> Study:
    """ParaRel's files and a study of them in `folder`. A relation's candidates are the first ones of `labels`."""
    for place, (n_patterns, n_facts, n_candidates) in enumerate(relations, 1):
        patterns = [_pattern(i) for i in range(n_patterns)]
        facts = [
            {
                "uuid": f"P{place}-{i}",
                "sub_label": f"Place {place}-{i}",
                "obj_label": labels[i % n_candidates],
            }
            for i in range(n_facts)
        ]
        for name, rows in ((PATTERNS, patterns), (FACTS, facts)):
            (folder / name).mkdir(parents=True, exist_ok=True)
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / name / f"P{place}.jsonl").write_text(text, encoding="utf-8")
    declared = {
        "name": "generated", "description": "A generated ParaRel",
        "datasets": [{"name": DATASET, "import": {"format": "pararel", "path": str(folder)}}],
        "prompts": [{"name": PROMPT, "format": prompt_format, "generations": ["candidates"]}],
        "models": [{"name": MODEL, "encoder_decoder": prompt_format == CLOZE_T5, **model}],
        "methods": [METHOD], "popularity": {"measure": "imported"},
    }  # fmt: skip
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(declared, sort_keys=False), encoding="utf-8")
    return load_study(path)


def _pattern(number: int) -> Row:
    """One of a relation's patterns: five lemmas and two tenses; every seventh has an article before [Y]."""
    lemma, article = _LEMMAS[number % len(_LEMMAS)], "a" if number % 7 == 6 else "the"
    text = f"[X] {lemma} {number} {article} [Y] ."
    return {"pattern": text, "lemma": lemma, "tense": ("present", "past")[number % 2]}


def write_inputs(study: Study, log: logging.Logger) -> Lake:
    """The lake of a study up to what its models are asked, made by the platform's own stages."""
    lake = Lake(study.home.lake)
    lake.ensure_schemas()
    describe_study(study, lake)
    for table in ("triples", "entities"):
        lake.write(table, [], fingerprint="generated")
    build_questions(study, lake, log)
    describe_cloze_queries(study, lake, log)
    build_paraphrases(study, lake, log)
    return lake


def write_predictions(study: Study, lake: Lake, seed: int = 0) -> int:
    """Popularity of every third subject, and a seeded prediction for every query; returns how many."""
    rng = np.random.default_rng(seed)
    facts = {row["question_id"]: row for row in _with_popularity(lake, rng)}
    asked = lake.read("paraphrases").to_pylist()
    usual = {
        key: row["objects"][0] if rng.random() < _KNOWS else f"object {rng.integers(20)}"
        for key, row in facts.items()
    }
    agrees, other = rng.random(len(asked)) < _AGREES, rng.integers(0, 20, len(asked))
    said = [
        usual[row["question_id"]] if same else f"object {place}"
        for row, same, place in zip(asked, agrees, other, strict=True)
    ]
    golds = [facts[row["question_id"]]["objects"][0] for row in asked]
    correct = [text == gold for text, gold in zip(said, golds, strict=True)]
    columns = {
        "dataset": DATASET, "question_id": [row["question_id"] for row in asked],
        "paraphrase_id": [row["paraphrase_id"] for row in asked], "model": MODEL, "method": METHOD,
        "prompt": PROMPT, "prediction": said, "is_correct": correct, "gold_rank": [2 - one for one in correct],
        "log_likelihood": rng.uniform(-9, 0, len(asked)), "prediction_tokens": 2,
        "mean_log_likelihood": rng.uniform(-4, 0, len(asked)), "margin": rng.uniform(0, 2, len(asked)),
        "confidence": rng.uniform(0, 1, len(asked)),
        "free_generation": said, "is_mismatch": False, "n_candidates": 20,
        "prompt_hash": [prompt_hash(put_sentinel(row["paraphrase"])) for row in asked],
        **accounts(len(asked), rng),
    }  # fmt: skip
    rows = lake_table("candidate_answers", columns)
    lake.write("candidate_answers", rows, fingerprint="generated", partition=f"{MODEL}|{METHOD}")
    return len(asked)


def _with_popularity(lake: Lake, rng: np.random.Generator) -> list[Row]:
    """The questions, every third of them linked to a subject with popularity."""
    questions = lake.read("questions").to_pylist()
    linked = questions[::_LINKED]
    for row in linked:
        row["subject_id"] = f"Q{row['question_id']}"
    lake.write("questions", questions, fingerprint="linked")
    views = 10 ** rng.uniform(1, 6, len(linked))
    known = {"entity_id": [row["subject_id"] for row in linked], "popularity": views, "dataset": DATASET}
    lake.write("imported_popularity", lake_table("imported_popularity", known), fingerprint="generated")
    return questions
