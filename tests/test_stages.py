"""Which stages a study has, in which order, and which months its window covers."""

from __future__ import annotations

import dataclasses

import dagster as dg
import pytest

from dagster_project.definitions import definitions_of
from dagster_project.defs import resources
from dagster_project.stages import Stage, plan
from longtail.storage.home import DEFAULT_STUDY_FILE, PROJECT_ROOT, longtail_home
from longtail.study.file import load_study
from longtail.study.prompts import Grounding
from longtail.study.study import Study
from tests.in_process_dbt import put_parsed


def _default() -> Study:
    return load_study(PROJECT_ROOT / "study.yaml")


@pytest.fixture(scope="module")
def stages() -> list[Stage]:
    """Those of the default study."""
    put_parsed(longtail_home(), DEFAULT_STUDY_FILE)
    return stages_of(_default())


def stages_of(study: Study) -> list[Stage]:
    """The stages, with the keys of their assets without the study's name."""
    stages = plan(study, definitions_of(study).resolve_asset_graph())
    short = [tuple(key.removeprefix(f"{study.name}/") for key in stage.keys) for stage in stages]
    return [dataclasses.replace(stage, keys=keys) for stage, keys in zip(stages, short, strict=True)]


def test_facts_come_first_and_the_warehouse_last(stages: list[Stage]) -> None:
    assert "lake/triples" in stages[0].keys
    assert [stage.is_output for stage in stages] == [False] * (len(stages) - 1) + [True]
    assert {"published_warehouse", "report/report_page"} <= set(stages[-1].keys)
    keys = [key for stage in stages for key in stage.keys]
    order = [
        "lake/triples",
        "lake/questions",
        "lake/retrieved_passages",
        "lake/answers",
        "lake/answer_embeddings",
    ]
    assert [keys.index(key) for key in order] == sorted(keys.index(key) for key in order)
    assert "lake/tuned_models" not in keys  # the default study has no sweep


def test_a_model_takes_all_its_methods_in_one_run(stages: list[Stage]) -> None:
    # Dagster joins the dimensions of a key in alphabetical order: method, model
    (answers,) = [stage for stage in stages if stage.title == "answers of reference_m"]
    assert {answers.first, answers.last} == {"closed_book|reference_m", "oracle|reference_m"}


def test_all_methods_of_a_model_are_timed_together(stages: list[Stage]) -> None:
    (timed,) = [stage for stage in stages if stage.title == "single latencies of reference_m"]
    assert (timed.keys, timed.first, timed.last) == (("lake/single_latencies",), "reference_m", "reference_m")


@pytest.mark.usefixtures("stages")  # the parse
def test_a_new_asset_joins_the_stage_of_its_group() -> None:
    """The plan follows from the asset graph: only the asset's own definition names it."""
    definitions = definitions_of(_default())

    @dg.asset(
        key_prefix="lake",
        group_name="generation",
        partitions_def=resources.models_of("readability_scores"),
        deps=[resources.asset_key("lake", "answers")],
    )
    def readability_scores() -> None: ...

    graph = dg.Definitions.merge(
        definitions, dg.Definitions(assets=[readability_scores])
    ).resolve_asset_graph()
    titles = [stage.title for stage in plan(_default(), graph)]
    assert titles.index("answers of reference_s") < titles.index("readability scores of reference_s")
    assert titles.index("readability scores of reference_s") < titles.index("answers of reference_m")


def test_generations_are_compared_with_a_portrait_only_where_the_study_asks_for_it(
    stages: list[Stage],
) -> None:
    grounded = dataclasses.replace(_default(), grounding=Grounding(), methods=("closed_book",))
    keys = [key for stage in stages_of(grounded) for key in stage.keys]
    assert keys.index("lake/passages") < keys.index("indexes/portrait") < keys.index("lake/quip_scores")
    assert keys.index("lake/answers") < keys.index("lake/quip_scores")
    assert keys.count("lake/quip_scores") == len(grounded.models)
    without = {key for stage in stages for key in stage.keys}
    assert "lake/entity_cooccurrences" in keys
    assert not {"indexes/portrait", "lake/quip_scores", "lake/entity_cooccurrences"} & without
