"""A warehouse that is built step by step equals one that is built at once, whatever changed and whatever failed."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
import pytest

from longtail.storage import fingerprints
from longtail.storage.fingerprints import ParsedCode
from longtail.warehouse import reuse
from longtail.warehouse.build import STUDY_BUILD
from longtail.warehouse.reuse import inputs_of, nodes_to_build, note_built, plan_build
from tests.in_process_dbt import put_parsed
from tests.longtail.warehouse.small_project import MODELS, TABLES, SmallProject, contents, random_change
from tests.warehouses import UNANSWERED, copied_study, lake_of

LOG = logging.getLogger(__name__)
N_CHANGES, COMPARED_EVERY = 12, 4


@pytest.fixture
def small(tmp_path: Path) -> SmallProject:
    return built_project(tmp_path)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> SmallProject:
    """For tests that change nothing in it."""
    return built_project(tmp_path_factory.mktemp("unchanged"))


def built_project(folder: Path) -> SmallProject:
    project = SmallProject(folder)
    for number, table in enumerate(TABLES):
        project.write_rows(table, "p", [(i, i * (number + 1)) for i in range(5)])
    project.rebuild()
    return project


def names(nodes: Iterable[str]) -> set[str]:
    return {node.split(".")[2] for node in nodes}


def killed_run(small: SmallProject, selection: str) -> None:
    """What a dbt run leaves that is killed when it has built its models, before it says so."""
    small.run("--no-write-json", "run", "--select", selection)
    with duckdb.connect(str(small.build)) as connection:
        connection.execute("update audit.invocations set finished_at = null")


def test_random_changes_one_by_one_give_what_one_build_gives(small: SmallProject) -> None:
    rng = random.Random(24)
    done: list[str] = []
    n_reused = 0
    for number in range(1, N_CHANGES + 1):
        before = small.state()
        done.append(random_change(small, rng))
        trouble = rng.choice(["", "", "by hand", "killed", "failed"])
        if trouble in ("by hand", "killed"):
            small.write_project()
            selection = rng.choice([*MODELS, "stg_b+", "int_ab+"])
            (killed_run if trouble == "killed" else _run)(small, selection)
            done.append(f"{trouble}: {selection}")
            if rng.random() < 0.5:
                small.put_back(before)
                done.append("as before")
        if trouble == "failed":
            kept = (small.lake / "a/p.parquet").read_bytes()
            with duckdb.connect() as connection:
                connection.execute(
                    f"copy (select null::bigint as id, 1::bigint as value) to '{small.lake}/a/p.parquet'"
                )
            small.rebuild()
            (small.lake / "a/p.parquet").write_bytes(kept)
            done.append("failed")
        built = small.rebuild()
        n_reused += "model.small.int_c" not in built
        outdated = nodes_to_build(small.manifest(), small.inputs(), small.build)
        assert not outdated, done  # nothing has changed since
        if number % COMPARED_EVERY == 0:
            made = [*MODELS, "int_py", *(["fct_extra"] if small.settings.has_extra_model else [])]
            at_once = small.built_at_once(number)
            assert contents(small.build, made) == contents(at_once, made), done
    assert n_reused >= N_CHANGES / 4, "the test would show nothing"


def _run(small: SmallProject, selection: str) -> None:
    small.run("--no-write-json", "run", "--select", selection)


def test_only_what_reads_a_change_is_built(small: SmallProject) -> None:
    small.write_rows("c", "q", [(9, 9)])
    assert names(small.rebuild()) == {"stg_c", "int_c", "fct_all"}
    small.settings.numbers["inner"] = 1
    built = names(small.rebuild())
    assert {"int_ab", "fct_low", "fct_sum"} <= built
    assert "stg_a" not in built
    with duckdb.connect(str(small.build)) as connection:
        connection.execute("drop table main.fct_sum")
    assert names(small.rebuild()) == {"fct_sum"}
    small.settings.numbers["shift"] = 1  # a setting of the project, which any node may read
    assert small.rebuild() == small.inputs().keys()


def test_another_version_of_a_library_builds_everything_again(
    unchanged: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = unchanged.inputs()
    for library in ("dbt-core", "dbt-duckdb", "duckdb", "numpy", "pandas", "pyarrow"):
        with monkeypatch.context() as patch:
            patch.setattr(reuse, "version", lambda name, of=library: "0" if name == of else version(name))
            after = unchanged.inputs()
        assert [node for node in before if before[node] == after[node]] == [], library


@pytest.mark.parametrize("name", ["dbt_project.yml", "profiles.yml"])
def test_a_setting_of_the_project_or_of_the_connection_builds_everything_again(
    unchanged: SmallProject, name: str
) -> None:
    before, file = unchanged.inputs(), unchanged.dbt / name
    text = file.read_text()
    file.write_text(f"{text}\n# another line")
    after = unchanged.inputs()
    file.write_text(text)
    assert [node for node in before if before[node] == after[node]] == []


def test_the_code_that_a_python_model_imports_builds_it_again(
    unchanged: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what its imports import, as `phrases` does the rules of matching."""
    manifest = unchanged.manifest()
    code = manifest["nodes"]["model.small.int_py"]["raw_code"]
    imported = f"from longtail.questions.text_matches import Phrases\n{code}"
    manifest["nodes"]["model.small.int_py"]["raw_code"] = imported
    before, parse = inputs_of(manifest, unchanged.lake, unchanged.dbt), fingerprints.parse_code

    def changed(file: Path) -> ParsedCode:
        parsed = parse(file)
        return replace(parsed, code=f"{parsed.code}\nchanged") if file.name == "match.py" else parsed

    monkeypatch.setattr(fingerprints, "parse_code", changed)
    after = inputs_of(manifest, unchanged.lake, unchanged.dbt)
    assert names(node for node in before if before[node] != after[node]) == {"int_py", "fct_all"}


def test_all_that_dbt_says_of_a_node_counts_but_for_what_each_run_writes(unchanged: SmallProject) -> None:
    """A new version of dbt may say more: it counts until somebody names it in `_VOLATILE`."""
    whole = unchanged.manifest()
    before = inputs_of(whole, unchanged.lake, unchanged.dbt)
    ignored = set()
    for key, value in whole["nodes"]["model.small.stg_a"].items():
        node = {**whole["nodes"]["model.small.stg_a"], key: _another(value)}
        manifest = {**whole, "nodes": {**whole["nodes"], "model.small.stg_a": node}}
        if key != "resource_type":  # which says that it is a model
            after = inputs_of(manifest, unchanged.lake, unchanged.dbt)
            ignored |= {key} if after["model.small.stg_a"] == before["model.small.stg_a"] else set()
    assert ignored <= reuse._VOLATILE | {"depends_on"}  # of whose keys only the nodes count


def _another(value: Any) -> Any:
    if isinstance(value, dict):
        return {**value, "another": 1}
    if isinstance(value, list):
        return [*value, "another"]
    return f"{value} " if isinstance(value, str) else "another"


def test_macros_that_a_run_notes_and_the_order_of_what_a_node_reads_change_nothing(
    unchanged: SmallProject,
) -> None:
    before, manifest = unchanged.inputs(), unchanged.manifest()
    for node in manifest["nodes"].values():
        node["depends_on"]["macros"].append("macro.dbt.is_incremental")
        for named in (node["depends_on"]["nodes"], node["refs"], node["sources"]):
            named.reverse()
    assert inputs_of(manifest, unchanged.lake, unchanged.dbt) == before


def test_a_missing_build_is_outdated_and_planning_does_not_make_one(unchanged: SmallProject) -> None:
    missing = unchanged.folder / "none.duckdb"
    assert nodes_to_build(unchanged.manifest(), unchanged.inputs(), missing) == unchanged.inputs().keys()
    assert not missing.exists()


def test_a_study_builds_what_was_not_recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    study = copied_study(UNANSWERED, monkeypatch, tmp_path / "study")
    put_parsed(study.home.home, study.path)
    plan = plan_build(study)
    assert (plan.reused, plan.command) == (frozenset(), STUDY_BUILD)

    note_built(study, replace(plan, project="another project"), LOG)
    assert not plan_build(study).reused
    note_built(study, plan, LOG)
    again = plan_build(study)
    assert (again.command, again.reused) == ((), plan.inputs.keys())
    assert not plan_build(replace(study, seed=study.seed + 1)).reused

    lake_of(study).write("relations", [], fingerprint="none")
    changed = plan_build(study)
    assert changed.command == (*STUDY_BUILD, "--select", "stg_study__relations+")
    outdated = changed.inputs.keys() - changed.reused
    assert {"model.longtail.stg_study__relations", "model.longtail.dim_relations"} <= outdated
    assert "model.longtail.stg_study__models" in changed.reused

    with duckdb.connect(str(study.home.build_warehouse)) as connection:  # the same inputs, but a later run
        connection.execute(
            "update audit.results set built_in = built_in + 100 where name = 'int_tuned_measures'"
        )
    assert "model.longtail.fct_tuned_models" not in plan_build(study).reused


def test_content_that_comes_back_after_a_killed_run_is_built_again(small: SmallProject) -> None:
    """The record of the first state must not outlive the killed run, which built the second."""
    before = contents(small.build, list(MODELS))
    kept = (small.lake / "c/p.parquet").read_bytes()
    small.write_rows("c", "p", [(1, 77)])
    killed_run(small, "int_c")
    (small.lake / "c/p.parquet").write_bytes(kept)
    assert "int_c" in names(small.rebuild())
    assert contents(small.build, list(MODELS)) == before
