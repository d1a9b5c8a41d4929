"""Reading a study file: its short form, all of its parts, the rules for the whole, and how a quick run limits it.

In the short form, a file of questions and models are enough: `questions: my_questions.csv` stands for one dataset of
format table, and gives every other key but `models` a value. A model that is a text stands for a model of that path.
Names are made from the names of files.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from longtail.errors import StudyError
from longtail.methods import memory_method
from longtail.prompt_formats import CLOZE_FORMATS
from longtail.relations.relation import Relation, add_source_set, by_name
from longtail.storage.home import RESERVED_NAMES, read_limit
from longtail.study.backends import BACKENDS, IMPORTED, PASSAGES
from longtail.study.imports import PARAPHRASES, Counts, Decisions, load_format
from longtail.study.imports import QUESTIONS as QUESTION_FILES
from longtail.study.models import Model
from longtail.study.parts import read_part
from longtail.study.prompts import CANDIDATES
from longtail.study.source import FIRST_MONTH, NO_SOURCE, FactSample, newest_complete_month
from longtail.study.study import QUESTIONS, Study
from longtail.study.sweep import Sweep
from longtail.study.values import LONGEST_NAME, describe, refuse
from longtail.study.yaml_text import read_yaml


def load_study(path: Path) -> Study:
    """Read and check a study file; LONGTAIL_LIMIT makes it a quick run.

    Errors: `StudyError` with file, key and allowed values.
    """
    raw = read_yaml(path)
    if isinstance(raw, Mapping):
        raw = _write_in_full(raw, path)
    study = read_part(Study, raw, path, study=raw if isinstance(raw, Mapping) else None)
    for key, message in _problems(study):
        raise StudyError(f"{path}: {key}: {message}")
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


def limit_study(study: Study, limit: int) -> Study:
    """The study with at most `limit` questions, spread evenly over its datasets, in a home of its own: its name says so.

    Each dataset has one question or more. No reader is fine-tuned: so few questions leave relations without facts to
    train on. Errors: `StudyError` where `limit` is no number of questions.
    """
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise StudyError(f"limit: {limit!r} is not a number of questions, 1 or more")
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


Problems = Iterator[tuple[str, str]]
"""Keys, and what is wrong with each."""


def _problems(study: Study) -> Problems:
    """What excludes what in a study as a whole."""
    yield from _check_imports(study)
    yield from _check_names(study)
    yield from _check_methods_of_prompts(study)
    yield from _check_cloze_formats(study)
    yield from _check_popularity(study)
    if study.grounding is not None:
        allowed = [memory_method().name, *study.retrieval_methods]
        others = [name for name in study.grounding.methods if name not in allowed]
        if others:
            yield ("grounding.methods", refuse(others[0], allowed))
    if study.sweep is not None:
        yield from _check_sweep(study, study.sweep)


def _check_names(study: Study) -> Problems:
    """Names are of what is there, and every retriever and prompt is used."""
    yield from _check_relations(study)
    shared = {d.name for d in study.datasets} & {r.name for r in study.reference_questions}
    if shared:
        yield ("reference_questions", f"{min(shared)!r} is the name of a dataset; choose another")
    for method in study.methods:
        if study.method(method).reads_results and not study.results_read_by(method):
            fusible = ", ".join(other.name for other in study.known_methods if other.can_be_fused)
            yield (
                "methods",
                f"{method!r} takes the passages of other methods; name at least one of {fusible} beside it",
            )
    names = [dataset.name for dataset in study.datasets]
    for i, dataset in enumerate(study.datasets):
        if dataset.drawn_as and dataset.drawn_as not in names[:i] + names[i + 1 :]:
            yield (f"datasets[{i}].drawn_as", f"{dataset.drawn_as!r} is no other dataset of the study")
    unused = [retriever.name for retriever in study.retrievers if retriever.name not in study.methods]
    if unused:
        yield ("retrievers", f"{unused[0]!r} is not used; name it under methods, or leave it out")
    if not study.answer_prompts and not study.candidate_prompts:
        yield ("prompts", "at least one must ask questions or candidates")


def _check_relations(study: Study) -> Problems:
    """No two datasets of the source give a name two meanings, or a property two names."""
    of_name: dict[str, Relation] = {}
    of_property: dict[str, Relation] = {}
    for dataset in study.datasets_of_source:
        known = by_name(add_source_set(dataset.definitions))
        for name in dataset.relations:
            relation = known[name]
            is_repeated = dataset.relations.count(name) > 1
            if is_repeated or of_name.setdefault(name, relation) != relation:
                yield ("datasets", f"relation {name!r} is defined twice; give one of them another name")
            other = of_property.setdefault(relation.property_id, relation)
            if other.name != name:
                names = f"{other.name!r} and {name!r}"
                yield ("datasets", f"property {relation.property_id} is asked as {names}; keep one of them")


def _check_popularity(study: Study) -> Problems:
    """The source has what popularity is measured by."""
    if study.source.kind == "rdf_file" and study.popularity.measure == "page_views":
        yield ("popularity.measure", "an rdf_file holds no page views; allowed here: sitelinks")
    if study.source.kind == NO_SOURCE and study.popularity.measure in ("page_views", "sitelinks"):
        yield (
            "popularity.measure",
            f"without a source nothing else is known; allowed here: {IMPORTED}, or a count",
        )
    if study.source.sample is not None:
        yield from _check_sample(study, study.source.sample)
    if study.popularity.measure == "page_views":
        yield from _check_window(study)
    if study.popularity.agent == "all" and study.source.views_from == "dump":
        yield ("popularity.agent", "the dumps have page views of users alone; all goes with views_from: api")


def _check_methods_of_prompts(study: Study) -> Problems:
    """Prompts name methods of the study, and every method has a prompt."""
    for i, prompt in enumerate(study.prompts):
        unknown = [method for method in prompt.methods if method not in study.methods]
        if unknown:
            yield (
                f"prompts[{i}].methods",
                f"{unknown[0]!r} is not one of the study's: {', '.join(study.methods)}",
            )
        if prompt.methods and not {"questions", CANDIDATES} & {*prompt.generations}:
            yield (f"prompts[{i}].methods", f"goes with generations: [questions] or [{CANDIDATES}]")
    for method in study.methods:
        scores = any(study.scores_by(prompt, method) for prompt in study.candidate_prompts)
        if not scores and not study.prompts_of(method):
            yield ("prompts", f"none asks questions by method {method!r}; add it under methods of a prompt")
        asking = study.method(method)
        if scores and not (asking.is_parametric or asking.is_fixed or study.retrieve_paraphrases):
            yield (
                "retrieve_paraphrases",
                f"candidates are scored by method {method!r}, whose passages follow the wording; set it to true",
            )


def _check_cloze_formats(study: Study) -> Problems:
    """Every model that is asked for candidates has a prompt of its kind."""
    for i, model in enumerate(study.models):
        if study.candidate_prompts and model.generates and not study.cloze_prompts(model):
            format_ = next(name for name, of in CLOZE_FORMATS.items() if of == model.encoder_decoder)
            kind = "an encoder-decoder" if model.encoder_decoder else "not an encoder-decoder"
            yield (
                "prompts",
                f"none asks models[{i}] for candidates: {model.name} is {kind}, and needs a prompt of format {format_}",
            )


def _check_sample(study: Study, sample: FactSample) -> Problems:
    """Check that the weights of a sample of facts are available."""
    if not study.datasets_of_source:
        yield ("source.sample", "no dataset is built from the source: there is nothing to sample")
    measure = study.popularity.measure
    if sample.frequency == "popularity" and measure not in ("page_views", "sitelinks"):
        yield (
            "source.sample.frequency",
            f"popularity.measure {measure} does not cover the source's own facts; choose text, or measure them by"
            " page_views or sitelinks",
        )
    is_dated = sample.frequency == "popularity" and measure == "page_views"
    if is_dated and sample.month is None:
        yield ("source.sample.month", "is missing: the month whose page views weight the sample")
    if sample.month is not None and not is_dated:
        yield ("source.sample.month", "goes with frequency: popularity, measured in page_views")
    if sample.month is not None:
        yield from _check_month(study, "source.sample.month", sample.month)


def _check_window(study: Study) -> Problems:
    """The window must be within the months that have page views."""
    last = study.popularity.last_month or _newest_month(study)
    yield from _check_month(study, "popularity.last_month", last)
    most = _month_number(last) - _month_number(FIRST_MONTH) + 1
    if study.popularity.n_months > most:
        yield (
            "popularity.n_months",
            f"{study.popularity.n_months} months up to {last} begin before {FIRST_MONTH}, the first month with"
            f" page views; allowed: 1 to {most}",
        )


def _check_month(study: Study, key: str, month: str) -> Problems:
    newest = _newest_month(study)
    if not FIRST_MONTH <= month <= newest:
        yield (key, f"{month!r} has no page views; allowed: '{FIRST_MONTH}' to '{newest}'")


def _newest_month(study: Study) -> str:
    """The newest month with page views: the newest complete month; in the sandbox its snapshot, if that is later."""
    newest = newest_complete_month(datetime.now(UTC).date())
    # The sandbox's time is the study's: a machine with a slow clock can run it too.
    return max(newest, study.source.snapshot) if study.source.kind == "sandbox" else newest


def _month_number(month: str) -> int:
    return int(month[:4]) * 12 + int(month[5:])


def _check_imports(study: Study) -> Problems:
    """Datasets, answers and passages of files fit the source, and name what is there."""
    kind = study.source.kind
    if kind == "none" and study.datasets_of_source:
        name = study.datasets_of_source[0].name
        yield ("source", f"is missing; dataset {name} is no import and needs one")
    formats = [load_format(QUESTION_FILES, d.imported.format) for d in study.datasets if d.imported]
    names_entities = any(format_.names_entities for format_ in formats)
    if kind == "sandbox" and names_entities:
        yield (
            "source.kind",
            "the sandbox has its own entities, whose identifiers do not fit those in imported files;"
            " leave source out, or use wikidata or rdf_file",
        )
    if kind == "sandbox" and study.collections:
        yield (
            "collections",
            "the sandbox has its own articles, and other texts say nothing about its entities; leave source out, or use"
            " wikidata or rdf_file",
        )
    if study.popularity.measure == "imported" and not names_entities and kind != "none":
        yield (
            "popularity.measure",
            "imported goes with a dataset whose import brings entities, as format popqa does",
        )
    if study.candidate_prompts and not any(format_.has_candidates for format_ in formats):
        yield ("prompts", "generations: [candidates] goes with a dataset of cloze queries, as format pararel")
    for i, dataset in enumerate(study.datasets):
        wanted = dataset.paraphrases and load_format(PARAPHRASES, dataset.paraphrases.format).of
        if wanted and (dataset.imported is None or dataset.imported.format != wanted):
            message = f"goes with an import of format {wanted}, whose ids it is joined by"
            yield (f"datasets[{i}].paraphrases", message)
    for i, model in enumerate(study.models):
        yield from _check_results(study, i, model)
    names = [dataset.name for dataset in study.datasets]
    named: dict[str, tuple[Counts | Decisions, ...]] = {"counts": study.counts, "decisions": study.decisions}
    for key, declared in named.items():
        for i, part in enumerate(declared):
            if part.dataset not in (None, *names):
                yield (f"{key}[{i}].dataset", f"{part.dataset!r} is not one of: {', '.join(names)}")


def _check_results(study: Study, i: int, model: Model) -> Problems:
    names = [dataset.name for dataset in study.datasets]
    for j, results in enumerate(model.results):
        place = f"models[{i}].results[{j}]"
        if results.dataset not in names:
            yield (f"{place}.dataset", f"{results.dataset!r} is not one of: {', '.join(names)}")
        method = dict(results.options).get("method")
        if method is not None and method not in study.methods:
            yield (f"{place}.method", f"{method!r} is not one of methods: {', '.join(study.methods)}")
        asking = study.answer_prompts if method is None else study.prompts_of(method)
        prompts, by = [prompt.name for prompt in asking], f" by {method}" if method else ""
        if results.prompt is not None and results.prompt not in prompts:
            yield (
                f"{place}.prompt",
                f"{results.prompt!r} is not a prompt that asks questions{by}: {', '.join(prompts)}",
            )
        tells_shots = load_format(results.kind, results.format).tells_shots
        if results.prompt is None and not tells_shots and len(prompts) > 1 and not study.grounding_prompts:
            yield (f"{place}.prompt", f"is missing; the log does not say which: {', '.join(prompts)}")


def _check_sweep(study: Study, sweep: Sweep) -> Problems:
    """A reader that takes passages apart from the question is tuned, and a retriever by embeddings."""
    readers = [model.name for model in study.models if PASSAGES in BACKENDS[model.backend].capabilities]
    dense = [name for name in study.methods if study.method(name).is_dense]
    for key, name, allowed in (("model", sweep.model, readers), ("retriever", sweep.retriever, dense)):
        if name not in allowed:
            yield (f"sweep.{key}", refuse(name, allowed))
