"""The short form of a study: a file of questions and models are enough.

`questions: my_questions.csv` stands for one dataset of format table, and gives every other key but `models` a value. A
model that is a text stands for a model of that path. Names are made from the names of files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, TypeGuard

from longtail.methods import memory_method
from longtail.storage.home import RESERVED_NAMES
from longtail.study.backends import IMPORTED
from longtail.study.reader import LONGEST_NAME, Reader

QUESTIONS = "questions"


def in_full(read: Reader) -> Reader:
    """The study with its short keys written in full. Errors: `StudyError`."""
    raw = dict(read.raw)
    if isinstance(raw.get("models"), list):
        raw["models"] = [_model(one) if isinstance(one, str) else one for one in raw["models"]]
        _check_names(read, raw["models"])
    if QUESTIONS in raw:
        raw = {**_study_of(read), **raw}
        del raw[QUESTIONS]
    return Reader(read.path, read.where, raw)


def _study_of(read: Reader) -> Mapping[str, Any]:
    file = read.text(QUESTIONS)
    if "datasets" in read.raw:
        raise read.fail(QUESTIONS, "stands for a dataset; name the file in datasets instead")
    name = _name(file)
    if name in RESERVED_NAMES and "name" not in read.raw:
        raise read.fail(
            QUESTIONS,
            f"the study's name would be made from {file}, but {name!r} is taken; key name sets another",
        )
    return {
        "name": name,
        "description": f"The questions of {PurePosixPath(file).name}",
        "datasets": [{"name": name, "import": {"format": "table", "path": file}}],
        "prompts": [{"name": "zero_shot"}],
        "methods": [memory_method().name],
        "popularity": {"measure": IMPORTED},
    }


def _check_names(read: Reader, models: Sequence[object]) -> None:
    """Refuse a name that was made from a path if another model has it too."""
    names = Counter(
        model["name"] for model in models if isinstance(model, Mapping) and _is_text(model.get("name"))
    )
    for path in filter(_is_text, read.raw["models"]):
        if names[_name(path)] > 1:
            raise read.fail(
                "models",
                f"{_name(path)!r} appears twice; it was made from path {path}; key name sets another:"
                f" {{name: <name>, path: {path}}}",
            )


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str)


def _model(path: str) -> Mapping[str, str]:
    return {"name": _name(path), "path": path}


def _name(path: str) -> str:
    """A name from the last part of a path: `org/My-Model.gguf` → my_model."""
    last = PurePosixPath(path).name.lower()
    stem = re.sub(r"(\.[a-z]+)+$", "", last) or last
    return re.sub(r"[^a-z0-9]+", "_", stem).strip("_")[:LONGEST_NAME].strip("_") or QUESTIONS
