"""Everything that Dagster sees: loads `defs`, and leaves out what the study does not need."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import dagster as dg
from dagster_shared.record import replace

from dagster_project.defs.resources import StudyResource, chosen_study
from longtail.storage.home import PROJECT_ROOT
from longtail.study.study import Study

_NEEDED_BY: Mapping[str, Callable[[Study], bool]] = {
    "page_views": lambda study: study.popularity.measure == "page_views",
    "reference_page_views": lambda study: any(source.tagme for source in study.reference_questions),
    "passages": lambda study: study.generates or study.grounding is not None,
    "excluded_pages": lambda study: study.generates or study.grounding is not None,
    "portrait": lambda study: study.grounding is not None,
    "quip_scores": lambda study: study.grounding is not None,
    "entity_cooccurrences": lambda study: study.grounding is not None,
    "retrieved_passages": lambda study: study.generates and bool(study.retrieval_methods),
    "cited_passages": lambda study: study.generates and bool(study.retrieval_methods),
    "search_recalls": lambda study: study.generates and bool(study.retrieval_methods),
    "answer_embeddings": lambda study: bool(study.paraphrase_prompts or study.sample_prompts),
    "answer_entailments": lambda study: study.nli is not None,
}
"""Assets that only some studies need. A study also does without an asset that has no partition, such as the answers of a
prompt that nobody is asked, and without indexes where no model answers."""
_OF_A_LIST = (dg.StaticPartitionsDefinition, dg.MultiPartitionsDefinition)


@dg.definitions
def defs() -> dg.Definitions:
    """All assets, checks, schedules and resources of the chosen study."""
    return definitions_of(chosen_study())


def definitions_of(study: Study) -> dg.Definitions:
    """What is defined, in groups of the study, without the assets that it does not need and the dependencies on them."""
    # It would warn several times that a code location is named after its study, and not after the project's folder.
    logging.getLogger("dagster.components.core.component_tree").setLevel(logging.ERROR)
    loaded = dg.load_from_defs_folder(path_within_project=PROJECT_ROOT)
    # A module that imports an asset of another one defines it once more.
    assets = [asset for asset in dict.fromkeys(loaded.assets or ()) if isinstance(asset, dg.AssetsDefinition)]
    assets = [asset for asset in assets if any(_is_needed(study, spec) for spec in asset.specs)]
    keys = {key for asset in assets for key in asset.keys}

    def keep_needed(spec: dg.AssetSpec) -> dg.AssetSpec:
        return spec.replace_attributes(
            group_name=f"{study.name}/{spec.group_name}",  # the interface joins groups of one name
            deps=[dep for dep in spec.deps if dep.asset_key in keys],
            owners=study.owners,
            tags={**spec.tags, "study": study.name},
        )

    checks = [
        check for check in loaded.asset_checks or () if {key.asset_key for key in check.check_keys} <= keys
    ]
    return replace(
        loaded,
        assets=[asset.map_asset_specs(keep_needed) for asset in assets],
        asset_checks=checks,
        resources={"study": StudyResource()},
        executor=dg.in_process_executor,  # one process per run, so that a model stays loaded from step to step
    )


def _is_needed(study: Study, asset: dg.AssetSpec) -> bool:
    partitions, name = asset.partitions_def, asset.key.path[-1]
    if isinstance(partitions, _OF_A_LIST) and not partitions.get_partition_keys():
        return False
    if name in _NEEDED_BY:
        return _NEEDED_BY[name](study)
    return asset.key.path[-2:-1] != ["indexes"] or (study.generates and name in study.retrieval_methods)
