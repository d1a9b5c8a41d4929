"""What study.yaml says of files that others made: datasets, and answers of models.

What belongs here: the keys, where a file lies, and their checks. What does not: what is in the files (one module a
format), and what becomes of it (`facts`, `answers`, `questions.build`).
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path

from dagster_project.core.errors import SourceError
from dagster_project.core.study.reader import Reader

POPQA = "popqa"
ENTITY_QUESTIONS = "entity_questions"
POPQA_TP = "popqa_tp"
ADAPTIVE_RETRIEVAL = "adaptive_retrieval"
LM_EVAL = "lm_eval"
DATASET_FORMATS = (POPQA, ENTITY_QUESTIONS)
PARAPHRASE_FORMATS = (POPQA_TP,)
RESULT_FORMATS = (ADAPTIVE_RETRIEVAL, LM_EVAL)
SPLITS = ("test", "dev", "train")


@dataclass(frozen=True)
class Place:
    """A file or folder: `path`, relative to the study file, or what environment variable `path_env` holds."""

    path: str | None = None
    path_env: str | None = None

    def find(self, study_path: Path, purpose: str = "to import") -> Path:
        """Where it lies. Errors: `SourceError` where the variable is not set or nothing is there."""
        named = self.path
        if self.path_env:
            named = os.environ.get(self.path_env, "").strip()
            if not named:
                raise SourceError(
                    f"{study_path}: environment variable {self.path_env} is not set; set it to the file {purpose}"
                )
        by = f" ({self.path_env} names it)" if self.path_env else ""
        try:
            found = study_path.parent / Path(named or "").expanduser()
            is_there = found.exists()
        except (OSError, RuntimeError) as error:  # a name too long, the home of nobody
            raise SourceError(
                f"{named}: names no file or folder {purpose}{by}: {error}; named in {study_path}"
            ) from None
        if not is_there:
            raise SourceError(
                f"{found}: there is no such file or folder {purpose}{by}; named in {study_path}"
            )
        return found


@dataclass(frozen=True)
class DatasetImport:
    """A dataset's questions out of a file: `popqa` (TSV) or `entity_questions` (the folder of its splits)."""

    format: str
    place: Place
    split: str | None = None


@dataclass(frozen=True)
class ParaphraseImport:
    """Paraphrases of a popqa dataset out of a PopQA-TP file (CSV), joined by id."""

    format: str
    place: Place


@dataclass(frozen=True)
class Results:
    """Answers that others generated, of one dataset; a model may have several such entries.

    `adaptive_retrieval`: result CSVs of that name's reference implementation, a file or a folder of them, of which
    `model` and `input` choose (as their file names write them). `lm_eval`: a samples_*.jsonl of
    lm-evaluation-harness; `method` says how it was asked, `id_field` which key of `doc` holds the question's id,
    `filter` and `metric` which of the harness's filters and metrics is meant, where a file has several. `prompt` is
    the study's prompt that the rows stand under; None: the one with the file's number of shots.
    """

    format: str
    place: Place
    dataset: str
    prompt: str | None = None
    model: str | None = None
    input: str | None = None
    method: str = "closed_book"
    id_field: str = "id"
    filter: str | None = None
    metric: str | None = None


def read_dataset_import(read: Reader) -> DatasetImport:
    """The mapping under `import` of a dataset."""
    format_ = read.choice("format", DATASET_FORMATS)
    more = ("split",) if format_ == ENTITY_QUESTIONS else ()
    read.only("format", "path", "path_env", *more)
    split = read.choice("split", SPLITS, "test") if format_ == ENTITY_QUESTIONS else None
    return DatasetImport(format_, read_place(read), split)


def read_paraphrase_import(read: Reader) -> ParaphraseImport:
    """The mapping under `paraphrases` of a dataset."""
    read.only("format", "path", "path_env")
    return ParaphraseImport(read.choice("format", PARAPHRASE_FORMATS), read_place(read))


def read_results(read: Reader, methods: tuple[str, ...]) -> Results:
    """One entry of the list under `results` of a model."""
    format_ = read.choice("format", RESULT_FORMATS)
    own = {"adaptive_retrieval": ("model", "input"), "lm_eval": ("method", "id_field", "filter", "metric")}[
        format_
    ]
    read.only("format", "path", "path_env", "dataset", "prompt", *own)
    texts = {key: read.optional(key, read.text) for key in ("prompt", "model", "input", "filter", "metric")}
    return Results(
        format=format_,
        place=read_place(read),
        dataset=read.text("dataset"),
        method=read.choice("method", methods, "closed_book"),
        id_field=read.text("id_field", "id"),
        **texts,
    )


def slice_of(declared: DatasetImport | ParaphraseImport | Results) -> dict[str, object]:
    """What of a declaration decides the rows, for a fingerprint: all but where the file lies."""
    return {f.name: getattr(declared, f.name) for f in dataclasses.fields(declared) if f.name != "place"}


def read_place(read: Reader) -> Place:
    """Keys path and path_env, of which exactly one is given."""
    path, variable = read.optional("path", read.text), read.optional("path_env", read.environment_name)
    if (path is None) == (variable is None):
        raise read.fail("path", "exactly one of path and path_env must name the file to import")
    return Place(path, variable)
