"""Column lineage: small queries with known answers, the project's models against sqlglot's own, bad SQL."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError
from sqlglot.lineage import lineage as sqlglot_lineage
from sqlglot.optimizer.qualify import qualify

from longtail.study.study import Study
from longtail.tables import TABLES
from longtail.warehouse.described import read_build
from longtail.warehouse.lineage import column_lineage, lineage_schema
from tests.longtail.warehouse.described_build import describe, described_unanswered, manifest_of, models_of
from tests.warehouses import UNANSWERED, built_study, copied_study

pytestmark = pytest.mark.xdist_group("described_build")

RELATIONS = {("db", "a"): ["x", "y", "k", "items"], ("db", "b"): ["z", "k"]}
PARENTS = {("db", "a"): "A", ("db", "b"): "B", ("lake", "quarantine"): "Q"}


def origins(sql: str) -> dict[str, set[str]]:
    """The lineage of a query over db.a and db.b, as in {"column": {"A.x"}}."""
    found = column_lineage(sql, lineage_schema(RELATIONS), PARENTS)
    return {name: {f"{parent}.{column}" for parent, column in columns} for name, columns in found.items()}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ('select X, y as why from "w"."db"."a"', {"x": {"A.x"}, "why": {"A.y"}}),
        ("with c as (select * from w.db.b) select * from c", {"z": {"B.z"}, "k": {"B.k"}}),
        ("select * exclude (z), 1 as one from db.b", {"k": {"B.k"}, "one": set()}),
        ("select a.x + b.z as s from db.a join db.b on a.k = b.k where a.y > 0", {"s": {"A.x", "B.z"}}),
        ("select count(*) as n, sum(x) filter (where y) as s from db.a", {"n": set(), "s": {"A.x", "A.y"}}),
        ("select sum(x) over (partition by k order by y) as s from db.a", {"s": {"A.x", "A.k", "A.y"}}),
        ("select sum(x) over w as s from db.a window w as (order by k)", {"s": {"A.x", "A.k"}}),
        ("select x as p, y as q from db.a union all select z, k from db.b",
         {"p": {"A.x", "B.z"}, "q": {"A.y", "B.k"}}),
        ("select x, k from db.a union all by name select k, z from db.b",
         {"x": {"A.x"}, "k": {"A.k", "B.k"}, "z": {"B.z"}}),
        ("(select x from db.a) union (select z from db.b) union select y from db.a",
         {"x": {"A.x", "B.z", "A.y"}}),
        ("select (select max(z) from db.b where b.k = a.k) as m from db.a", {"m": {"B.z"}}),
        ("select x in (select z from db.b) as seen from db.a", {"seen": {"A.x", "B.z"}}),
        ("select (select max(b.z - a.y) from db.b) as m from db.a", {"m": {"A.y", "B.z"}}),
        ("select list_transform(items, lambda x: x + 1) as up from db.a", {"up": {"A.items"}}),
        ("select unnest(items) as item from db.a", {"item": {"A.items"}}),
        ("select u.item, x from db.a, unnest(a.items) as u(item)", {"item": {"A.items"}, "x": {"A.x"}}),
        ("select e.i, v.t from range(3) as e(i) cross join (values ('s')) as v(t)", {"i": set(), "t": set()}),
        ("with a as (select y as x from db.a) select a.x from a", {"x": {"A.y"}}),
        ("select x as w, w + k as v from db.a group by all", {"w": {"A.x"}, "v": {"A.x", "A.k"}}),
        ("select s.reason from read_parquet('/o''k)/quarantine/*.parquet', union_by_name=true) as s",
         {"reason": {"Q.reason"}}),
        ("select x from db.a join other.t as o on o.k = a.k", {"x": {"A.x"}}),
    ],
)  # fmt: skip
def test_a_column_comes_from_what_its_expression_reads(sql: str, expected: dict[str, set[str]]) -> None:
    assert origins(sql) == expected


def test_star_over_a_lake_table_has_the_columns_of_tables_py() -> None:
    found = origins(
        "with s as (select * from read_parquet('/home/lake/quarantine/*.parquet')) select * from s"
    )
    assert found == {column.name: {f"Q.{column.name}"} for column in TABLES["quarantine"].columns}


@pytest.mark.parametrize("sql", ["select nothing from db.a", "selct x from db.a", "select k from db.a, db.b"])
def test_unknown_and_ambiguous_names_are_errors(sql: str) -> None:
    with pytest.raises(SqlglotError):
        origins(sql)


@pytest.fixture(scope="module")
def study() -> Iterator[Study]:
    with pytest.MonkeyPatch.context() as patch:
        yield built_study(UNANSWERED, patch)


def test_every_model_is_described_and_every_origin_is_a_column_of_a_direct_parent(study: Study) -> None:
    manifest, described = manifest_of(study), described_unanswered()
    assert set(described) == set(models_of(manifest))
    for name, model in described.items():
        if manifest["nodes"][name]["language"] == "python":
            assert model.lineage is None
            continue
        assert model.lineage is not None, name
        assert set(model.lineage) == {column.name for column in model.columns}, name
        for parent, column in set().union(*model.lineage.values()):
            assert parent in manifest["nodes"][name]["depends_on"]["nodes"], (name, parent)
            if parent in described:
                assert column in {known.name for known in described[parent].columns}
            else:
                table = TABLES[manifest["sources"][parent]["identifier"]]
                assert column in {known.name for known in table.columns}


def test_the_models_lineage_is_that_of_sqlglots_own_search(study: Study) -> None:
    """sqlglot's `lineage` follows one column at a time through a tree; its leaves are the origins."""
    manifest, described = manifest_of(study), described_unanswered()
    by_name = {(node["schema"], node["alias"]): name for name, node in manifest["nodes"].items()}
    built = read_build(study.home.build_warehouse, [])
    schema = {"build": {s: {} for s, _ in built}}
    for (s, name), relation in built.items():
        schema["build"][s][name] = dict.fromkeys(relation.columns, "int")
    compared = 0
    for name in (
        "fct_accuracy",
        "int_answers",
        "int_adaptive_split_accuracy",
        "dim_entities",
        "fct_quarantine",
    ):
        node = manifest["nodes"][f"model.longtail.{name}"]
        path = study.home.build / "dbt/target/compiled/longtail" / node["original_file_path"]
        sql = path.read_text(encoding="utf-8").replace('"warehouse".', '"build".')
        query = qualify(parse_one(sql, dialect="duckdb"), schema=schema, dialect="duckdb")
        lineage = described[f"model.longtail.{name}"].lineage
        assert lineage
        trees = sqlglot_lineage(None, query.sql("duckdb"), schema, dialect="duckdb")
        for column, ours in lineage.items():
            leaves = [
                n for n in trees[column].walk() if not n.downstream and isinstance(n.expression, exp.Table)
            ]
            theirs = {
                (by_name[leaf.expression.db, leaf.expression.name], exp.to_column(leaf.name).name)
                for leaf in leaves
            }
            assert ours == theirs, (name, column)
            compared += len(theirs)
    assert compared > 50


def test_schema_and_rows_are_those_of_the_build(study: Study) -> None:
    described = described_unanswered()
    mart = described["model.longtail.dim_questions"]
    with duckdb.connect(str(study.home.build_warehouse), read_only=True) as connection:
        columns = connection.sql("describe marts.dim_questions").fetchall()
        assert connection.sql("select count(*) from marts.dim_questions").fetchall() == [(mart.n_rows,)]
    assert [(c.name, c.type, "YES" if c.nullable else "NO") for c in mart.columns] == [
        row[:3] for row in columns
    ]
    assert all(column.description for column in mart.columns)
    assert described["model.longtail.stg_questions__questions"].n_rows is None


def test_the_build_can_be_written_right_after(study: Study) -> None:
    describe(study, manifest_of(study), ["model.longtail.dim_models"])
    with duckdb.connect(str(study.home.build_warehouse)) as connection:
        assert connection.sql("select 1").fetchall() == [(1,)]


def test_sql_that_cannot_be_analysed_costs_its_own_lineage_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    study = copied_study(UNANSWERED, monkeypatch, tmp_path / "study")
    manifest = manifest_of(study)
    compiled = study.home.build / "dbt/target/compiled/longtail"
    some = [
        f"model.longtail.{name}" for name in ("fct_accuracy", "dim_models", "dim_questions", "int_answers")
    ]
    bad, missing, *_ = (manifest["nodes"][name] for name in some)
    (compiled / bad["original_file_path"]).write_text("select from where )", encoding="utf-8")
    (compiled / missing["original_file_path"]).unlink()
    with caplog.at_level(logging.WARNING):
        described = describe(study, manifest, some)
    assert set(described) == set(some)
    without = {name for name, model in described.items() if model.lineage is None}
    assert without == {"model.longtail.dim_models", "model.longtail.fct_accuracy"}
    assert len(described[bad["unique_id"]].columns) > 5
    assert sorted(record.getMessage().split(":")[0] for record in caplog.records) == [
        "dim_models",
        "fct_accuracy",
    ]
    assert all("\n" not in record.getMessage() for record in caplog.records)


def test_a_model_that_is_not_built_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    study = copied_study(UNANSWERED, monkeypatch, tmp_path / "study")
    with duckdb.connect(str(study.home.build_warehouse)) as connection:
        connection.execute("drop table marts.dim_models")
    dropped, kept = "model.longtail.dim_models", "model.longtail.fct_accuracy"
    assert set(describe(study, manifest_of(study), [dropped, kept])) == {kept}
