"""What must hold in a study whose datasets or answers come from files of others.

What belongs here: which keys go together. What does not: single values (`declared`), and the files themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster_project.core.relations.entity_questions import RELATION_NAMES
from dagster_project.core.relations.popqa import RELATIONS
from dagster_project.core.study.imports import ENTITY_QUESTIONS, POPQA, DatasetImport
from dagster_project.core.study.reader import Reader

if TYPE_CHECKING:
    from dagster_project.core.study.study import Dataset, Model, Study


def relations_of(imported: DatasetImport) -> tuple[str, ...]:
    """The relations that a format's files may ask about."""
    return RELATION_NAMES if imported.format == ENTITY_QUESTIONS else tuple(r.name for r in RELATIONS)


def check(read: Reader, study: Study) -> None:
    """Errors: `StudyError` naming the key and what goes with it."""
    kind = study.source.kind
    if kind == "none" and study.datasets_of_source:
        name = study.datasets_of_source[0].name
        raise read.fail("source", f"is missing; dataset {name} is no import and needs one")
    if kind == "sandbox" and study.datasets_of_files:
        raise read.fail(
            "source.kind",
            "the sandbox is a world of its own, whose identifiers mean other entities than those of imported files;"
            " leave source out, or use wikidata or rdf_file",
        )
    has_popqa = any(d.imported and d.imported.format == POPQA for d in study.datasets)
    if study.popularity.measure == "imported" and not has_popqa:
        raise read.fail("popularity.measure", "imported goes with a dataset whose import has format popqa")
    for i, dataset in enumerate(study.datasets):
        _check_dataset(read, study, i, dataset, has_popqa)
    for i, model in enumerate(study.models):
        _check_results(read, study, i, model)


def _check_dataset(read: Reader, study: Study, i: int, dataset: Dataset, has_popqa: bool) -> None:
    if dataset.paraphrases and (dataset.imported is None or dataset.imported.format != POPQA):
        raise read.fail(
            f"datasets[{i}].paraphrases", "goes with an import of format popqa, whose ids it is joined by"
        )
    links = dataset.imported is not None and dataset.imported.format == ENTITY_QUESTIONS
    if links and not has_popqa and not study.datasets_of_source:
        raise read.fail(
            f"datasets[{i}].import",
            "the files of entity_questions name no entity: a dataset of the source, or one of format popqa, must"
            " bring the entities that their subjects are linked to",
        )


def _check_results(read: Reader, study: Study, i: int, model: Model) -> None:
    names = [dataset.name for dataset in study.datasets]
    prompts = [prompt.name for prompt in study.answer_prompts]
    for j, results in enumerate(model.results):
        place = f"models[{i}].results[{j}]"
        if results.dataset not in names:
            raise read.fail(f"{place}.dataset", f"{results.dataset!r} is not one of: {', '.join(names)}")
        if results.prompt is not None and results.prompt not in prompts:
            raise read.fail(
                f"{place}.prompt",
                f"{results.prompt!r} is not a prompt that asks questions: {', '.join(prompts)}",
            )
        if results.prompt is None and results.format == "lm_eval" and len(prompts) > 1:
            raise read.fail(
                f"{place}.prompt", f"is missing; the log does not say which: {', '.join(prompts)}"
            )
        if results.format == "lm_eval" and results.method not in study.methods:
            raise read.fail(
                f"{place}.method", f"{results.method!r} is not one of methods: {', '.join(study.methods)}"
            )
