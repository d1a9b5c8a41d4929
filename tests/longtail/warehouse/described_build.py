"""The models of a small build as the platform describes them, for tests of lineage and of descriptions."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from longtail.study.study import Study
from longtail.warehouse.described import ModelDescription, describe_models
from tests.warehouses import UNANSWERED, built_study

LOG = logging.getLogger("tests.described_build")


def manifest_of(study: Study) -> dict[str, Any]:
    return json.loads((study.home.build / "dbt/target/manifest.json").read_text(encoding="utf-8"))


def models_of(manifest: dict[str, Any]) -> list[str]:
    """The dbt unique_ids of all models."""
    return [name for name, node in manifest["nodes"].items() if node["resource_type"] == "model"]


def describe(study: Study, manifest: dict[str, Any], models: Sequence[str]) -> dict[str, ModelDescription]:
    compiled = study.home.build / "dbt/target/compiled"
    return describe_models(manifest, compiled, study.home.build_warehouse, models, LOG)


@functools.cache
def described_unanswered() -> dict[str, ModelDescription]:
    """Every model of the build of `UNANSWERED`."""
    with pytest.MonkeyPatch.context() as patch:
        study = built_study(UNANSWERED, patch)
        manifest = manifest_of(study)
        return describe(study, manifest, models_of(manifest))
