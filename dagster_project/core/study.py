"""study.yaml as frozen objects, checked on load.

What belongs here: the keys of a study, their defaults and allowed values. What does not: what the keys make happen.
Every error names the file, the key and what is allowed there.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from dagster_project.core.errors import StudyError
from dagster_project.core.home import RESERVED_NAMES, StudyHome
from dagster_project.core.questions.relations import RELATIONS
from dagster_project.core.reader import Reader
from dagster_project.core.wikimedia.pageviews import FIRST_MONTH, newest_complete_month

SOURCE_KINDS = ("sandbox", "wikidata", "rdf_file")
BACKENDS = ("transformers", "fake")
DTYPES = ("float32", "bfloat16", "float16")
METHODS = ("closed_book", "bm25", "dense", "oracle")
RETRIEVERS = ("bm25", "dense", "oracle")
PROMPT_FORMATS = ("qa", "question_answer")
DRAWS = ("per_question", "per_relation")
ASKS = ("questions", "paraphrases")
MEASURES = ("page_views", "sitelinks")
RELATION_NAMES = tuple(relation.name for relation in RELATIONS)


@dataclass(frozen=True)
class Source:
    """Where facts, views and texts come from.

    `sandbox`: a synthetic world of `facts_per_relation` questions a relation, made from `seed`.
    `wikidata`: the live services; the environment variable `contact_env` must hold the operator's address.
    `rdf_file`: an N-Triples file (plain or gzip) named by the environment variable `path_env`.
    `snapshot` is the month that the facts are pinned to; changing it fetches them again.
    """

    kind: str
    snapshot: str
    seed: int = 0
    facts_per_relation: int = 140
    path_env: str = "LONGTAIL_RDF_FILE"
    contact_env: str = "LONGTAIL_CONTACT"


@dataclass(frozen=True)
class Dataset:
    """A set of questions: all facts of `relations`, at most `max_questions_per_relation` of each (a seeded draw)."""

    name: str
    relations: tuple[str, ...] = RELATION_NAMES
    max_questions_per_relation: int | None = None


@dataclass(frozen=True)
class Prompt:
    """How a question is put (SPEC §3). `qa`: `Q: … A:`; `question_answer`: `Question: …` and `Answer:` on two lines.

    `asks` says what it is used for: `questions` (lake table answers), `paraphrases` (paraphrase_answers), or both.
    """

    name: str
    format: str = "qa"
    shots: int = 0
    draw: str | None = None
    asks: tuple[str, ...] = ("questions",)


@dataclass(frozen=True)
class Model:
    """A language model.

    `path` is a hub id, a folder, or `sandbox:s`, `sandbox:m`, `sandbox:l` for the reference models. `device` is a torch
    device or `auto`. `batch_tokens` bounds the padded tokens of a batch. `device_hour_usd` prices local computing.
    """

    name: str
    path: str
    backend: str = "transformers"
    family: str = ""
    n_parameters: int | None = None
    revision: str | None = None
    dtype: str = "float32"
    device: str = "auto"
    batch_tokens: int = 16_384
    device_hour_usd: float | None = None

    @property
    def quantisation(self) -> str:
        """The scheme of the weights' quantisation: none of the present backends has any."""
        return "none"


@dataclass(frozen=True)
class Popularity:
    """The measure and window of popularity: the mean of `n_months` months up to `last_month` (None: the latest)."""

    measure: str = "page_views"
    n_months: int = 12
    last_month: str | None = None


@dataclass(frozen=True)
class Study:
    """One study: everything that `make run` does is named here."""

    name: str
    description: str
    source: Source
    datasets: tuple[Dataset, ...]
    prompts: tuple[Prompt, ...]
    models: tuple[Model, ...]
    methods: tuple[str, ...]
    popularity: Popularity
    path: Path
    top_k: int = 5
    max_new_tokens: int = 15
    seed: int = 0

    @property
    def home(self) -> StudyHome:
        return StudyHome.of(self.path, self.name)

    @property
    def retrievers(self) -> tuple[str, ...]:
        return tuple(method for method in self.methods if method in RETRIEVERS)

    @property
    def answer_prompts(self) -> tuple[Prompt, ...]:
        """The prompts of lake table answers."""
        return tuple(prompt for prompt in self.prompts if "questions" in prompt.asks)

    @property
    def paraphrase_prompts(self) -> tuple[Prompt, ...]:
        """The prompts of lake table paraphrase_answers."""
        return tuple(prompt for prompt in self.prompts if "paraphrases" in prompt.asks)

    def model(self, name: str) -> Model:
        return _named(self.models, name, "model", self.path)

    def prompt(self, name: str) -> Prompt:
        return _named(self.prompts, name, "prompt", self.path)


def load_study(path: Path) -> Study:
    """Read and check a study file. Errors: `StudyError` with file, key and what is allowed."""
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StudyError(f"{path}: no such study file; name one with STUDY=<file>") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path}: cannot be read ({error})") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: of a date such as 2026-99-99
        raise StudyError(f"{path}: is not valid YAML: {' '.join(str(error).split())}") from None
    return _study(Reader(path, "", raw))


def _study(read: Reader) -> Study:
    read.only(*(f.name for f in dataclasses.fields(Study) if f.name != "path"))
    name = read.slug("name")
    if name in RESERVED_NAMES:
        raise read.fail("name", f"{name!r} is taken; not allowed: {', '.join(sorted(RESERVED_NAMES))}")
    study = Study(
        name=name,
        description=read.text("description"),
        source=_source(read.child("source")),
        datasets=_unique(read, "datasets", tuple(_dataset(r) for r in read.children("datasets"))),
        prompts=_unique(read, "prompts", tuple(_prompt(r) for r in read.children("prompts"))),
        models=_unique(read, "models", tuple(_model(r) for r in read.children("models"))),
        methods=read.choices("methods", METHODS, METHODS),
        popularity=_popularity(read.child("popularity")),
        path=read.path,
        top_k=read.number("top_k", 5, 1, 100),
        max_new_tokens=read.number("max_new_tokens", 15, 1, 4096),
        seed=read.number("seed", 0, 0),
    )
    _check_whole(read, study)
    return study


def _check_whole(read: Reader, study: Study) -> None:
    for i, prompt in enumerate(study.prompts):
        if prompt.shots and "paraphrases" in prompt.asks:
            raise read.fail(
                f"prompts[{i}].asks", "paraphrases are asked without demonstrations (SPEC §3): set shots to 0"
            )
    if not study.answer_prompts:
        raise read.fail("prompts", "at least one must ask questions")
    if study.source.kind == "rdf_file" and study.popularity.measure == "page_views":
        raise read.fail("popularity.measure", "an rdf_file holds no page views; allowed here: sitelinks")
    if study.popularity.measure == "page_views":
        _check_window(read, study)


def _check_window(read: Reader, study: Study) -> None:
    """Page views exist from `FIRST_MONTH` to the newest complete month, in the sandbox to its snapshot at least."""
    newest = newest_complete_month(date.today())
    if (
        study.source.kind == "sandbox"
    ):  # its time is the study's: a machine whose clock is behind can still run it
        newest = max(newest, study.source.snapshot)
    last = study.popularity.last_month or newest
    if not FIRST_MONTH <= last <= newest:
        raise read.fail(
            "popularity.last_month", f"{last!r} has no page views; allowed: '{FIRST_MONTH}' to '{newest}'"
        )
    most = _month_number(last) - _month_number(FIRST_MONTH) + 1
    if study.popularity.n_months > most:
        raise read.fail(
            "popularity.n_months",
            f"{study.popularity.n_months} months up to {last} begin before {FIRST_MONTH}, the first month with"
            f" page views; allowed: 1 to {most}",
        )


def _month_number(month: str) -> int:
    return int(month[:4]) * 12 + int(month[5:])


def _source(read: Reader) -> Source:
    kind = read.choice("kind", SOURCE_KINDS)
    keys = {
        "sandbox": ("seed", "facts_per_relation"),
        "wikidata": ("contact_env",),
        "rdf_file": ("path_env",),
    }[kind]
    read.only("kind", "snapshot", *keys)
    return Source(
        kind=kind,
        snapshot=read.month("snapshot"),
        seed=read.number("seed", 0, 0),
        facts_per_relation=read.number("facts_per_relation", 140, 8, 1_000_000),
        path_env=read.text("path_env", Source.path_env),
        contact_env=read.text("contact_env", Source.contact_env),
    )


def _dataset(read: Reader) -> Dataset:
    read.only(*(f.name for f in dataclasses.fields(Dataset)))
    return Dataset(
        name=read.slug("name"),
        relations=read.choices("relations", RELATION_NAMES, RELATION_NAMES),
        max_questions_per_relation=read.optional(
            "max_questions_per_relation", lambda key: read.number(key, 1, 1)
        ),
    )


def _prompt(read: Reader) -> Prompt:
    read.only(*(f.name for f in dataclasses.fields(Prompt)))
    shots = read.number("shots", 0, 0, 64)
    draw = read.optional("draw", lambda key: read.choice(key, DRAWS))
    if (shots > 0) != (draw is not None):
        raise read.fail("draw", f"goes with shots above 0, and is one of: {', '.join(DRAWS)}")
    return Prompt(
        name=read.slug("name"),
        format=read.choice("format", PROMPT_FORMATS, "qa"),
        shots=shots,
        draw=draw,
        asks=read.choices("asks", ASKS, ("questions",)),
    )


def _model(read: Reader) -> Model:
    read.only(*(f.name for f in dataclasses.fields(Model)))
    name = read.slug("name")
    return Model(
        name=name,
        path=read.text("path"),
        backend=read.choice("backend", BACKENDS, "transformers"),
        family=read.text("family", name),
        n_parameters=read.optional("n_parameters", lambda key: read.number(key, 1, 1)),
        revision=read.optional("revision", read.text),
        dtype=read.choice("dtype", DTYPES, "float32"),
        device=read.text("device", "auto"),
        batch_tokens=read.number("batch_tokens", Model.batch_tokens, 64),
        device_hour_usd=read.optional("device_hour_usd", read.price),
    )


def _popularity(read: Reader) -> Popularity:
    read.only(*(f.name for f in dataclasses.fields(Popularity)))
    return Popularity(
        measure=read.choice("measure", MEASURES, "page_views"),
        n_months=read.number("n_months", 12, 1, 240),
        last_month=read.optional("last_month", read.month),
    )


def _unique(read: Reader, key: str, items: tuple[Any, ...]) -> tuple[Any, ...]:
    seen: set[str] = set()
    for item in items:
        if item.name in seen:
            raise read.fail(key, f"{item.name!r} is there twice")
        seen.add(item.name)
    return items


def _named(items: tuple[Any, ...], name: str, what: str, path: Path) -> Any:
    for item in items:
        if item.name == name:
            return item
    raise StudyError(f"{path}: {what} {name!r} is not one of: {', '.join(item.name for item in items)}")
