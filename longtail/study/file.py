"""Reading and checking a study file: its short form, all of its parts, and how a quick run limits it.

In the short form, a file of questions and models are enough: `questions: my_questions.csv` stands for one dataset of
format table, and gives every other key but `models` a value. A model that is a text stands for a model of that path.
Names are made from the names of files.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from longtail.errors import StudyError
from longtail.methods import memory_method
from longtail.storage.home import RESERVED_NAMES
from longtail.study.backends import IMPORTED
from longtail.study.checks import check_study
from longtail.study.parts import read_part
from longtail.study.study import QUESTIONS, Study
from longtail.study.values import LONGEST_NAME, describe
from longtail.study.yaml_text import read_yaml

N_QUESTIONS = 150
"""What LONGTAIL_QUICK=1 (`make run QUICK=1`) means."""


def load_study(path: Path) -> Study:
    """Read and check a study file; LONGTAIL_LIMIT makes it a quick run.

    Errors: `StudyError` with file, key and allowed values.
    """
    raw = read_yaml(path)
    if isinstance(raw, Mapping):
        raw = _write_in_full(raw, path)
    study = read_part(Study, raw, path, study=raw if isinstance(raw, Mapping) else None)
    check_study(study)
    limit = read_limit()
    return study if limit is None else limit_study(study, limit)


def _write_in_full(raw: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """The study with its short keys written in full. Errors: `StudyError`."""
    if isinstance(raw.get("models"), list):
        models = [
            {"name": _name(model), "path": model} if isinstance(model, str) else model
            for model in raw["models"]
        ]
        raw = {**raw, "models": models}
    if QUESTIONS not in raw:
        return raw
    file = raw[QUESTIONS]
    if not isinstance(file, str):
        raise StudyError(f"{path}: {QUESTIONS}: must be a text, not {describe(file)}")
    if "datasets" in raw:
        raise StudyError(f"{path}: {QUESTIONS}: stands for a dataset; name the file in datasets instead")
    name = _name(file)
    if name in RESERVED_NAMES and "name" not in raw:
        raise StudyError(
            f"{path}: {QUESTIONS}: the study's name would be made from {file}, but {name!r} is taken;"
            " key name sets another"
        )
    return {
        "name": name,
        "description": f"The questions of {PurePosixPath(file).name}",
        "datasets": [{"name": name, "import": {"format": "table", "path": file}}],
        "prompts": [{"name": "zero_shot"}],
        "methods": [memory_method().name],
        "popularity": {"measure": IMPORTED},
        **{key: value for key, value in raw.items() if key != QUESTIONS},
    }


def _name(path: str) -> str:
    """A name from the last part of a path: `org/My-Model.gguf` → my_model."""
    last = PurePosixPath(path).name.lower()
    stem = re.sub(r"(\.[a-z]+)+$", "", last) or last
    return re.sub(r"[^a-z0-9]+", "_", stem).strip("_")[:LONGEST_NAME].strip("_") or QUESTIONS


def read_limit() -> int | None:
    """How many questions the environment allows, if it says so. Errors: `StudyError` where that is no number."""
    limit = os.environ.get("LONGTAIL_LIMIT", "").strip()
    if not limit:
        return None if os.environ.get("LONGTAIL_QUICK", "").strip() in ("", "0") else N_QUESTIONS
    if not (limit.isascii() and limit.isdigit() and int(limit[:9]) >= 1 and len(limit) < 10):
        raise StudyError(f"LIMIT: {limit!r} is not a number of questions, 1 or more")
    return int(limit)


def limit_study(study: Study, limit: int) -> Study:
    """The study with at most `limit` questions, spread evenly over its datasets, in a home of its own: its name says so.

    Each dataset has one question or more. No reader is fine-tuned: so few questions leave relations without facts to
    train on.
    """
    n_each, n_more = divmod(limit, len(study.datasets))
    datasets = []
    for place, dataset in enumerate(study.datasets):
        share = max(1, n_each + (place < n_more))
        datasets.append(
            dataclasses.replace(dataset, max_questions=min(share, dataset.max_questions or share))
        )
    return dataclasses.replace(
        study,
        name=f"{study.name}_limit_{limit}",
        description=f"{study.description} (quick run of at most {limit} questions)",
        datasets=tuple(datasets),
        sweep=None,
        limit=limit,
    )
