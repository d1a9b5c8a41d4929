"""The Parquet export: every row and every character, a card that parses, a folder that appears whole."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import yaml

from longtail.errors import PublishError
from longtail.storage.checksums import RECORD, compare_files
from longtail.study.file import load_study
from longtail.study.imports import NO_LICENCE, Import, Place, Results
from longtail.study.study import Study
from longtail.warehouse.export import ExportReport, export_marts
from longtail.warehouse.publication import KEPT_FOLDERS, read_publication, staging_beside
from longtail.warehouse.publish import publish_warehouse
from tests.flipped_bits import flip_bit
from tests.small_disk import files_up_to
from tests.synced import renames_on_disk
from tests.warehouses import AWKWARD, published_study, study_of_few_marts

LOG = logging.getLogger(__name__)
HOSTILE = "a|b <script>alert(1)</script> 'q' \"Q\" \\ --- \n# x: [y] 東京 \x00\x1f\u202e"


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Study:
    return study_of_few_marts(monkeypatch, tmp_path / "study")


@pytest.fixture(scope="module")
def answered() -> Iterator[Study]:
    """A study with answers, published and exported, for tests that only read it."""
    with pytest.MonkeyPatch.context() as patch:
        yield published_study(AWKWARD, patch)


@pytest.fixture(scope="module")
def exported(answered: Study) -> ExportReport:
    with renames_on_disk() as names:
        report = export_marts(answered, LOG)
    assert len(names) == 3  # the record, the folder, the link
    sizes = [
        os.path.getsize(Path(folder, name))
        for folder, _, files in os.walk(f"{report.path}/")
        for name in files
    ]
    assert report.n_bytes == sum(sizes) > 0
    return report


def front_matter(readme: Path) -> dict[str, Any]:
    """The YAML in front of a card."""
    before, yaml_text, _ = readme.read_text(encoding="utf-8").split("---\n", 2)
    assert before == ""
    loaded: dict[str, Any] = yaml.safe_load(yaml_text)
    return loaded


def test_every_table_comes_back_row_for_row_by_duckdb_and_by_arrow(
    answered: Study, exported: ExportReport
) -> None:
    published = answered.home.published_warehouse
    assert exported.n_rows == read_publication(published).n_rows
    with duckdb.connect(str(published), read_only=True) as connection:
        for name in exported.n_rows:
            file = exported.path / "data" / f"{name}.parquet"
            assert pq.read_metadata(file).num_rows == ds.dataset(file).count_rows()
            replaced = "* replace (map_entries(n_rows) as n_rows)" if name == "publication" else "*"
            for one, other in (("marts", "file"), ("file", "marts")):
                tables = {
                    "marts": f"select {replaced} from marts.{name}",
                    "file": f"select * from '{str(file).replace(chr(39), chr(39) * 2)}'",
                }
                missing = connection.execute(f"{tables[one]} except all {tables[other]}").fetchall()
                assert missing == [], (name, one)


def test_the_card_parses_and_says_what_is_there(exported: ExportReport) -> None:
    front = front_matter(exported.path / "README.md")
    files = {config["config_name"]: config["data_files"][0]["path"] for config in front["configs"]}
    assert (
        set(files)
        == {"publication", *exported.n_rows}
        == {path.stem for path in (exported.path / "data").iterdir()}
    )
    assert 0 in exported.n_rows.values()
    assert [c["config_name"] for c in front["configs"] if c.get("default")] == ["fct_answers"]
    assert front["longtail"]["dbt_invocation_id"] == exported.invocation_id


def test_what_a_column_means_stands_in_its_file(answered: Study, exported: ExportReport) -> None:
    with duckdb.connect(str(answered.home.published_warehouse), read_only=True) as connection:
        comments = connection.execute(
            "select table_name, map(list(column_name), list(comment)) from duckdb_columns() "
            "where schema_name = 'marts' and table_name in (select table_name from duckdb_tables()) group by table_name"
        ).fetchall()
        descriptions = dict(
            connection.execute("select table_name, description from marts.catalogue").fetchall()
        )
        for name, wanted in comments:
            file = exported.path / "data" / f"{name}.parquet"
            of_fields = {field.name: field.metadata[b"comment"].decode() for field in pq.read_schema(file)}
            assert of_fields == wanted, name
            of_file = dict(
                connection.execute(
                    "select key::varchar, decode(value) from parquet_kv_metadata($1) where key <> 'ARROW:schema'",
                    [str(file)],
                ).fetchall()
            )
            assert json.loads(of_file["column_comments"]) == wanted
            assert of_file["comment"] == descriptions[name]


def test_licences_follow_the_sources_of_the_rows(study: Study) -> None:
    with duckdb.connect(str(study.home.build_warehouse)) as connection:
        connection.execute("update marts.dim_entities set source = 'wikidata'")
        connection.execute("delete from marts.fct_popularity_history")
        connection.execute("delete from marts.dim_passages")
        connection.execute(
            "insert into marts.dim_passages by name select 'p' as passage_id, 'Q1' as entity_id, 'T' as title, "
            "0 as position, 't' as text, 'wikipedia' as source"
        )
        connection.execute(
            "insert into marts.dim_passages by name select 'leads:' || i as passage_id, 'T' as title, 0 as position, "
            "'t' as text, 'collection' as source, 'leads' as collection, 'Leads of W*k*pedia' as collection_source, "
            "'2018-12-20' as collection_date, 'CC BY-SA 3.0' as licence from range(1200) as numbers (i)"
        )
        connection.execute(
            "insert into marts.dim_passages by name select 'own:1' as passage_id, 'T' as title, 0 as position, "
            "'t' as text, 'collection' as source, 'own' as collection, 'us' as collection_source, "
            "'ask us' as licence"
        )
        connection.execute("update marts.dim_datasets set source = 'popqa'")
        connection.execute(
            "update marts.dim_entities set source = 'rdf_file' "
            "where entity_id = (select min(entity_id) from marts.dim_entities)"
        )
    publish_warehouse(study, LOG)
    readme = export_marts(study, LOG).path / "README.md"
    assert front_matter(readme)["license"] == ["cc0-1.0", "cc-by-sa-4.0", "mit", "other", "cc-by-sa-3.0"]
    licences = readme.read_text().split("## Licences")[1]
    assert (
        "- `cc-by-sa-3.0`: 1,200 passages of `dim_passages` are from collection leads: Leads of W\\*k\\*pedia, "
        "2018-12-20; CC BY-SA 3.0. Column `title` names the article to credit.\n"
    ) in licences
    assert "- `other`: 1 passages of `dim_passages` are from collection own: us; ask us. Column" in licences
    assert "PopQA: MIT" in licences
    assert "of EntityQuestions: MIT" not in licences


def test_other_peoples_page_views_are_credited_beside_entities_of_a_file(study: Study) -> None:
    with duckdb.connect(str(study.home.build_warehouse)) as connection:
        connection.execute("update marts.dim_entities set source = 'rdf_file'")
        connection.execute("update marts.fct_popularity_history set source = 'wikimedia'")
    publish_warehouse(study, LOG)
    readme = export_marts(study, LOG).path / "README.md"
    assert front_matter(readme)["license"] == ["apache-2.0", "cc0-1.0", "other", "cc-by-sa-4.0"]


def test_rows_whose_source_states_no_licence_leave_the_export_of_the_same_publication(
    answered: Study, exported: ExportReport, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = shutil.copytree(answered.path.parent, tmp_path / "study", symlinks=True)
    monkeypatch.setenv("LONGTAIL_HOME", str(folder / "home"))
    study, whole = load_study(folder / "study.yaml"), exported.n_rows
    (one, other), model = study.datasets, study.models[0]
    questions = Import("popqa", Place("questions.tsv"), licence=NO_LICENCE)
    answers = Results("table", Place("answers.csv"), other.name, licence=NO_LICENCE)
    stated = dataclasses.replace(
        study,
        datasets=(dataclasses.replace(one, imported=questions), other),
        models=(dataclasses.replace(model, results=(answers,)), *study.models[1:]),
    )
    export = export_marts(stated, LOG)
    assert not export.was_current
    with duckdb.connect() as connection:
        connection.execute(f"set file_search_path = '{str(export.path).replace(chr(39), chr(39) * 2)}'")
        asked = connection.execute("select distinct dataset from 'data/dim_questions.parquet'").fetchall()
        answered = connection.execute(
            "select distinct dataset, model from 'data/fct_answers.parquet' order by all"
        ).fetchall()
    assert asked == [(other.name,)]
    assert answered == [(other.name, name) for name in sorted(m.name for m in study.models[1:])]
    assert export.n_rows["dim_entities"] < whole["dim_entities"]
    assert export.n_rows["fct_accuracy"] == whole["fct_accuracy"]
    told = (export.path / "README.md").read_text(encoding="utf-8")
    assert f"rows with questions of {one.name}, answers of {model.name} to {other.name}. Rates" in told


def test_paragraphs_of_the_card_stand_apart(exported: ExportReport) -> None:
    lines = (exported.path / "README.md").read_text(encoding="utf-8").split("\n---\n")[1].splitlines()
    for before, line, after in zip(lines, lines[1:], lines[2:], strict=False):
        if line.startswith("#"):
            assert before == after == "", line
        if after.startswith("|--"):
            assert before == "", line


def test_hostile_labels_survive_and_stay_text(study: Study) -> None:
    with duckdb.connect(str(study.home.build_warehouse)) as connection:
        connection.execute("update marts.dim_entities set label = ?", [HOSTILE])
        connection.execute("update marts.catalogue set description = ?, source = ?", [HOSTILE, HOSTILE])
    publish_warehouse(study, LOG)
    export = export_marts(study, LOG)
    labels = pq.read_table(export.path / "data" / "dim_entities.parquet", columns=["label"])
    assert set(labels["label"].to_pylist()) == {HOSTILE}
    text = (export.path / "README.md").read_text(encoding="utf-8")
    assert "<script>" not in text
    assert front_matter(export.path / "README.md")["longtail"]["study"] == "synthetic"


def test_load_sql_makes_schema_marts_again_the_view_of_prompts_included(exported: ExportReport) -> None:
    code = (
        "import duckdb; c = duckdb.connect(); c.execute(open('load.sql').read());"
        "[c.execute(q).fetchall() for (q,) in c.sql('select example_query from catalogue').fetchall()];"
        "said = c.sql('select count(*), count(comment) from duckdb_columns() where not internal').fetchone();"
        "assert said[0] == said[1] == c.sql('select sum(n_columns) from catalogue').fetchone()[0], said;"
        "print(c.sql('select count(*), bool_and(is_exact) from marts.fct_prompts').fetchone())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=exported.path, capture_output=True, text=True)
    rows = [
        f"fct_{name}" for name in ("answers", "generated_passages", "paraphrase_answers", "sampled_answers")
    ]
    assert done.stdout.strip() == f"({sum(exported.n_rows[name] for name in rows)}, True)", done.stderr


def test_a_current_export_stays_and_readers_of_the_old_one_keep_it(study: Study) -> None:
    publish_warehouse(study, LOG)
    first = export_marts(study, LOG)
    old = first.path.resolve()
    assert not first.was_current
    assert export_marts(study, LOG).was_current
    publish_warehouse(study, LOG)
    assert first.path.resolve() == old
    assert not export_marts(study, LOG).was_current
    assert first.path.resolve() != old
    assert pq.read_table(old / "data" / "dim_questions.parquet").num_rows == first.n_rows["dim_questions"]
    for _ in range(KEPT_FOLDERS - 1):
        publish_warehouse(study, LOG)
        export_marts(study, LOG)
    exports = study.home.published / "exports"
    assert len(list(exports.iterdir())) == KEPT_FOLDERS


def test_a_flipped_bit_in_an_export_makes_it_again(study: Study) -> None:
    publish_warehouse(study, LOG)
    folder = export_marts(study, LOG).path.resolve()
    for number, name in enumerate(("data/dim_questions.parquet", "README.md", "SHA256SUMS"), 1):
        whole = (folder / name).read_bytes()
        (folder / name).chmod(0o644)
        flip_bit(folder / name)
        again = export_marts(study, LOG)
        folder = again.path.resolve()
        assert not again.was_current, name
        assert folder.name.startswith(f"{number + 1:06d}-")
        assert (folder / name).read_bytes() == whole
        assert export_marts(study, LOG).was_current


def test_before_and_after_every_step_of_an_export_its_reader_sees_a_whole_one(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed leaves what one of these readers sees; a full disk leaves the export before."""
    publish_warehouse(study, LOG)
    first = export_marts(study, LOG)
    publish_warehouse(study, LOG)
    with files_up_to(4_096), pytest.raises(PublishError, match="the previous version stays"):
        export_marts(study, LOG)
    assert not (study.home.published / ".staging-export").exists()
    seen: list[str] = []

    def look() -> None:
        assert compare_files(first.path / RECORD) == {}
        seen.append(front_matter(first.path / "README.md")["longtail"]["dbt_invocation_id"])

    def watched(step: Callable[..., None]) -> Callable[..., None]:
        def watching(*names: Path, **options: Any) -> None:
            look()
            step(*names, **options)
            look()

        return watching

    for name in ("replace", "rename", "unlink", "symlink"):
        monkeypatch.setattr(os, name, watched(getattr(os, name)))
    second = export_marts(study, LOG)
    assert not second.was_current
    assert len(seen) > 3


def test_errors_are_one_line_and_name_what_to_do(study: Study) -> None:
    with pytest.raises(PublishError, match="run `make run "):
        export_marts(study, LOG)
    publish_warehouse(study, LOG)
    (study.home.published / "export").mkdir()
    with pytest.raises(PublishError, match="move it away"):
        export_marts(study, LOG)


def test_what_a_killed_process_left_gives_its_room_back_before_files_are_made(tmp_path: Path) -> None:
    left = tmp_path / ".staging-export" / "left"
    left.mkdir(parents=True)
    with staging_beside(tmp_path, "export") as folder:
        assert [*folder.parent.iterdir()] == [folder]
        assert not left.exists()
    assert not folder.parent.exists()
