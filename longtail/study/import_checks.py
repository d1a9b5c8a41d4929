"""The rules for a study whose datasets, answers or passages come from imported files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtail.study.imports import PARAPHRASES, QUESTIONS, load_format
from longtail.study.reader import Reader

if TYPE_CHECKING:
    from longtail.study.datasets import Dataset
    from longtail.study.models import Model
    from longtail.study.study import Study


def check(read: Reader, study: Study) -> None:
    """Errors: `StudyError` naming the key and what it needs."""
    kind = study.source.kind
    if kind == "none" and study.datasets_of_source:
        name = study.datasets_of_source[0].name
        raise read.fail("source", f"is missing; dataset {name} is no import and needs one")
    naming = [name for name in map(_questions_of, study.datasets) if name and _names_entities(name)]
    if kind == "sandbox" and naming:
        raise read.fail(
            "source.kind",
            "the sandbox has its own entities, whose identifiers do not fit those in imported files;"
            " leave source out, or use wikidata or rdf_file",
        )
    if kind == "sandbox" and study.collections:
        raise read.fail(
            "collections",
            "the sandbox has its own articles, and other texts say nothing about its entities; leave source out, or use"
            " wikidata or rdf_file",
        )
    if study.popularity.measure == "imported" and not naming and kind != "none":
        raise read.fail(
            "popularity.measure",
            "imported goes with a dataset whose import brings entities, as format popqa does",
        )
    formats = [load_format(QUESTIONS, name) for name in map(_questions_of, study.datasets) if name]
    if study.candidate_prompts and not any(format_.has_candidates for format_ in formats):
        raise read.fail(
            "prompts", "generations: [candidates] goes with a dataset of cloze queries, as format pararel"
        )
    for i, dataset in enumerate(study.datasets):
        _check_dataset(read, i, dataset)
    for i, model in enumerate(study.models):
        _check_results(read, study, i, model)
    names = [dataset.name for dataset in study.datasets]
    named: dict[str, list[str | None]] = {
        "counts": [one.dataset for one in study.counts],
        "decisions": [one.dataset for one in study.decisions],
    }
    for key, datasets in named.items():
        for i, dataset_name in enumerate(datasets):
            if dataset_name not in (None, *names):
                raise read.fail(f"{key}[{i}].dataset", f"{dataset_name!r} is not one of: {', '.join(names)}")


def _questions_of(dataset: Dataset) -> str | None:
    return dataset.imported.format if dataset.imported else None


def _names_entities(name: str) -> bool:
    return bool(load_format(QUESTIONS, name).names_entities)


def _check_dataset(read: Reader, i: int, dataset: Dataset) -> None:
    name = _questions_of(dataset)
    if dataset.paraphrases:
        wanted = load_format(PARAPHRASES, dataset.paraphrases.format).of
        if name != wanted:
            raise read.fail(
                f"datasets[{i}].paraphrases",
                f"goes with an import of format {wanted}, whose ids it is joined by",
            )


def _check_results(read: Reader, study: Study, i: int, model: Model) -> None:
    names = [dataset.name for dataset in study.datasets]
    for j, results in enumerate(model.results):
        place = f"models[{i}].results[{j}]"
        if results.dataset not in names:
            raise read.fail(f"{place}.dataset", f"{results.dataset!r} is not one of: {', '.join(names)}")
        method = dict(results.options).get("method")
        if method is not None and method not in study.methods:
            raise read.fail(
                f"{place}.method", f"{method!r} is not one of methods: {', '.join(study.methods)}"
            )
        asking = study.answer_prompts if method is None else study.prompts_of(method)
        prompts, by = [prompt.name for prompt in asking], f" by {method}" if method else ""
        if results.prompt is not None and results.prompt not in prompts:
            raise read.fail(
                f"{place}.prompt",
                f"{results.prompt!r} is not a prompt that asks questions{by}: {', '.join(prompts)}",
            )
        tells_shots = load_format(results.kind, results.format).tells_shots
        if results.prompt is None and not tells_shots and len(prompts) > 1 and not study.grounding_prompts:
            raise read.fail(
                f"{place}.prompt", f"is missing; the log does not say which: {', '.join(prompts)}"
            )
