"""What follows a filled lake, without Dagster: the warehouse with its tests, its publication, its export, the report; or
some marts alone.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from longtail.report.report import write_report
from longtail.study.file import load_study
from longtail.warehouse.build import STUDY_BUILD
from longtail.warehouse.export import export_marts
from longtail.warehouse.publish import publish_warehouse
from tests.in_process_dbt import invoke_dbt
from tests.warehouses import build_warehouse

LOG = logging.getLogger(__name__)


def publish_lake(home: Path, study: Path) -> Path:
    """Build, test and publish the lake of a study file in this process; the published warehouse."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_HOME", str(home))
        loaded = load_study(study)
        build_warehouse(loaded)
        published = publish_warehouse(loaded, LOG)
        assert export_marts(loaded, LOG).n_rows.keys() == published.n_rows.keys()
        assert write_report(published.path, loaded.home.published_report, log=LOG).n_figures
    return published.path


def build_marts(home: Path, study: Path, *marts: str) -> Path:
    """Build these marts of the lake of a study file, with what they are made from and the tests of that; the build."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_HOME", str(home))
        loaded = load_study(study)
        chosen = [f"+{mart}" for mart in marts]
        invoke_dbt(loaded, *STUDY_BUILD, "--indirect-selection", "cautious", "--select", *chosen)
        return loaded.home.build_warehouse
