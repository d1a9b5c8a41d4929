"""Every step of publishing on a disk that has too little room for it, then on one that has enough.

Started by `test_publishing_on_a_full_disk` in a process that may mount: prints what each step said, as JSON.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import dagster as dg

from dagster_project.defs.results import clear_errors
from longtail.report.report import write_report
from longtail.study.file import load_study
from longtail.study.study import Study
from longtail.warehouse.docs import publish_docs
from longtail.warehouse.export import export_marts
from longtail.warehouse.publication import read_publication
from longtail.warehouse.publish import publish_warehouse
from tests.small_disk import SmallDisk

LOG = logging.getLogger("publishing_on_a_small_disk")
FREE = {"warehouse": (0.05, 1, 5), "export": (0.05, 0.2), "report": (0.05, 0.3), "docs": (0.5,)}
ENOUGH = 100.0
FAILURES: list[dg.Failure] = []


def main(source: Path, folder: Path) -> None:
    disk = SmallDisk.of(folder / "disk", ENOUGH)
    study_folder = shutil.copytree(source, disk.folder / "study")
    os.environ["LONGTAIL_HOME"] = str(study_folder / "home")
    study = load_study(study_folder / "study.yaml")
    home = study.home
    steps: dict[str, Callable[[], object]] = {
        "warehouse": lambda: publish_warehouse(study, LOG),
        "export": lambda: export_marts(study, LOG),
        "report": lambda: write_report(
            home.published_warehouse, home.published_report, home.published_figures
        ),
        "docs": lambda: publish_docs(study, LOG),
    }
    first = publish_warehouse(study, LOG)
    said = {}
    for name, step in steps.items():
        said[name] = []
        for free in FREE[name]:
            disk.leave_free(free)
            said[name].append(outcome(step))
            assert read_publication(home.published_warehouse).n_rows == first.n_rows
        disk.resize(4 * ENOUGH)
        if name != "docs":  # dbt takes long: the small study's journey makes the page
            step()
    print(json.dumps({"said": said, "left": left_behind(study), "rows": len(first.n_rows)}))


def outcome(step: Callable[[], object]) -> str:
    """What the failure says that Dagster shows; empty where there was none. Failures are kept, as Dagster keeps them."""
    try:
        with clear_errors():
            step()
    except dg.Failure as failure:
        FAILURES.append(failure)
        return failure.description or ""
    return ""


def left_behind(study: Study) -> list[str]:
    """Files of unfinished work."""
    return [
        str(path)
        for path in study.home.root.rglob("*")
        if ".staging" in str(path.relative_to(study.home.root)) and path.is_file()
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
