"""Warehouses built by dbt from synthetic lakes: each is built, and published, once a test run, and read by many tests.

Where several processes run the tests, each has a copy of its own of what the first one built; views of staging in it read
the first one's lake.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import hashlib
import logging
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from longtail.storage.checksums import RECORD, record, record_files
from longtail.storage.home import StudyHome
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.study.study import Study
from longtail.warehouse.build import STUDY_BUILD
from longtail.warehouse.docs import publish_docs
from longtail.warehouse.publication import marts_of, record_of
from longtail.warehouse.publish import publish_warehouse
from tests.in_process_dbt import invoke_dbt, put_parsed
from tests.lakes import LakePlan, make_lake, make_study

AWKWARD = LakePlan(
    n_questions_per_relation=40,
    n_questions_of_others=12,
    datasets=("popqa", "entity_questions"),
    prompts=("zero_shot", "few_shot"),
    models=("small", "large", "perfect", "memory_only"),
    methods=("closed_book", "genread", "bm25", "oracle"),
    priced=("large",),
    services=("perfect",),
    timed=("small", "large"),
    n_popularities=25,
    one_question_relation=True,
    always_right=("perfect",),
    absent=(("memory_only", "bm25"), ("memory_only", "oracle")),
)
"""Ties, zero and missing popularity, a relation of one question, a model always right (a service), one not retrieving,
costs known and unknown, samples missing; a dataset with too few questions for models fitted in folds, which take long."""

UNANSWERED = LakePlan(n_relations=2, n_questions_per_relation=3, with_answers=False)
FEW_MARTS = (
    "catalogue", "dim_datasets", "dim_entities", "dim_excluded_pages", "dim_methods", "dim_models", "dim_passages",
    "dim_paraphrases", "dim_prompts", "dim_questions", "fct_answers", "fct_candidate_answers", "fct_generated_passages",
    "fct_paraphrase_answers", "fct_popularity_history", "fct_prompts", "fct_quarantine", "fct_sampled_answers",
)  # fmt: skip
"""Marts for tests of how a file is published: those that licences and exact prompts are read from, and a renamed one."""
LOG = logging.getLogger("tests.warehouses")
OWN_PREFIX = "longtail-warehouses-"
"""How folders of one process begin."""
shared_folder: Path | None = None  # of all processes of a test run; set by conftest where there are several


def _made_once(prefix: str, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that `make` has filled once in a test run; each process has a copy, which goes with it."""
    folder = own_folder(prefix)
    if shared_folder is None:
        make(folder)
        return folder
    shared = shared_folder / f"{prefix}{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    with shared.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.with_suffix(".made").exists():
            shutil.rmtree(shared, ignore_errors=True)
            shared.mkdir()
            make(shared)
            shared.with_suffix(".made").touch()
    shutil.copytree(shared, folder, dirs_exist_ok=True)
    return folder


@functools.cache
def folder_of(plan: LakePlan) -> Path:
    """A folder with study.yaml and, in `home`, the lake and the build of `plan`; its name is awkward."""
    return _made_once("longtail's {odd} home ", f"{plan}", lambda folder: _build(plan, folder))


def _build(plan: LakePlan, folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_HOME", str(folder / "home"))
        study = make_study(folder, plan)
        make_lake(study.home.lake, plan)
        build_warehouse(study)
        put_parsed(study.home.home, study.path)  # the manifest
        shutil.rmtree(study.home.build / "dbt/target/run")  # half of all files, which every copy would copy


def build_warehouse(study: Study) -> None:
    """Build all models with their tests, as the platform does it."""
    invoke_dbt(study, *STUDY_BUILD)


def build_marts(home: Path, study: Path, *marts: str) -> Path:
    """Build these marts of the lake of a study file, with what they are made from and the tests of that; the build."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_HOME", str(home))
        loaded = load_study(study)
        chosen = [f"+{mart}" for mart in marts]
        invoke_dbt(loaded, *STUDY_BUILD, "--indirect-selection", "cautious", "--select", *chosen)
        return loaded.home.build_warehouse


def built_study(plan: LakePlan, patch: pytest.MonkeyPatch) -> Study:
    """The study of `plan`, its warehouse built; `LONGTAIL_HOME` points there as long as `patch` lasts."""
    return study_in(folder_of(plan), patch)


def study_in(folder: Path, patch: pytest.MonkeyPatch) -> Study:
    """The study of a folder with study.yaml and `home`, where `LONGTAIL_HOME` points as long as `patch` lasts."""
    patch.setenv("LONGTAIL_HOME", str(folder / "home"))
    return load_study(folder / "study.yaml")


def copied_study(plan: LakePlan, patch: pytest.MonkeyPatch, target: Path) -> Study:
    """As `built_study`, in a copy that a test may change."""
    return study_in(Path(shutil.copytree(folder_of(plan), target)), patch)


def study_of_few_marts(patch: pytest.MonkeyPatch, target: Path, marts: tuple[str, ...] = FEW_MARTS) -> Study:
    """As `copied_study` of `UNANSWERED`; of its marts, only these are there. A publication copies each mart with all
    comments, so that this one takes a fraction of the time."""
    return study_in(Path(shutil.copytree(_folder_of_few_marts(marts), target)), patch)


@functools.cache
def _folder_of_few_marts(marts: tuple[str, ...]) -> Path:
    return _made_once(OWN_PREFIX, f"{marts}", lambda folder: _drop_other_marts(folder, marts)) / "study"


def _drop_other_marts(folder: Path, marts: tuple[str, ...]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        build = copied_study(UNANSWERED, patch, folder / "study").home.build
    shutil.rmtree(build / "dbt")
    with duckdb.connect(str(build / "warehouse.duckdb")) as connection:
        for mart, kind in marts_of(connection, "warehouse").items():
            if mart not in marts:
                connection.execute(f"drop {kind} marts.{mart}")
        connection.execute(
            "delete from marts.catalogue where not list_contains(?, table_name)", [list(marts)]
        )


def published_study(plan: LakePlan, patch: pytest.MonkeyPatch) -> Study:
    """As `built_study`, its warehouse published. Tests may publish more beside it, and change nothing."""
    return study_in(_published_folder(plan), patch)


def own_folder(prefix: str = OWN_PREFIX) -> Path:
    """A folder of this process, which goes with it."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.cache
def _published_folder(plan: LakePlan) -> Path:
    return _made_once(OWN_PREFIX, f"published {plan}", lambda folder: _publish(plan, folder)) / "study"


def _publish(plan: LakePlan, folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        publish_warehouse(copied_study(plan, patch, folder / "study"), LOG)


@functools.cache
def documentation() -> Path:
    """The page that `publish_docs` puts beside the published warehouse of `UNANSWERED`.

    Making it takes dbt seconds, and it depends on the dbt project alone: one process makes it for all.
    """
    with pytest.MonkeyPatch.context() as patch:
        study = published_study(UNANSWERED, patch)
        page, shared = study.home.published_docs, (shared_folder or own_folder()) / "docs.html"
        with shared.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if shared.exists():
                return copy_page(shared, page)
            put_parsed(study.home.home, study.path)
            assert publish_docs(study, LOG).was_made
            copy_page(page, shared)
    return page


def copy_page(page: Path, target: Path) -> Path:
    """Copy a published page with its record."""
    shutil.copyfile(record_of(page), record_of(target))
    return shutil.copyfile(page, target)


def publish_small_files(home: StudyHome) -> list[Path]:
    """All that is published beside the warehouse, as small files that are recorded as the real ones are; the files."""
    pages = {
        home.published_report: ["figures/a.png"],
        home.published_answers: ["answers/a.bin"],
        home.published_docs: [],
    }
    files = []
    for page, beside in pages.items():
        own = [page, *(page.parent / name for name in beside)]
        for file in own:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"this is {file.name}", encoding="utf-8")
        record_files(record_of(page), own)
        files += [*own, record_of(page)]
    for link in (home.published_export, home.published_router):
        folder = home.published / f"{link.name}s/000001-a"
        (folder / "data").mkdir(parents=True)
        (folder / "data/rows").write_text("rows", encoding="utf-8")
        record(folder)
        link.symlink_to(folder.relative_to(home.published))
        files += [folder / "data/rows", folder / RECORD]
    return files


def lake_of(study: Study) -> Lake:
    return Lake(study.home.lake)


def mart(study: Study, name: str, schema: str = "marts") -> pd.DataFrame:
    """One table of the build, whole."""
    build = study.home.build_warehouse
    return _table(build, build.stat().st_mtime_ns, f"{schema}.{name}").copy()


@functools.cache  # to open a build takes longer than to read a table
def _table(build: Path, _changed_at: int, name: str) -> pd.DataFrame:
    with duckdb.connect(str(build), read_only=True) as connection:
        return connection.execute(f"select * from {name}").df()
