"""The catalogue lists every published table, and what it says of each is so; the exposures list those that code reads."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import duckdb
import pytest
import yaml

from longtail.storage.home import PROJECT_ROOT
from longtail.tables import TABLES
from longtail.warehouse.publication import literal


def test_every_table_and_view_is_listed_with_all_that_is_asked_of_it(
    published: duckdb.DuckDBPyConnection,
) -> None:
    listed = published.execute(
        "select table_name, kind, n_columns, n_rows, lake_tables, grain, source, example_query from catalogue"
    ).fetchall()
    held = published.execute(
        "select table_name, if(table_type = 'VIEW', 'view', 'table'), count(*) "
        "from information_schema.tables join information_schema.columns using (table_schema, table_name) "
        "where table_schema = 'marts' group by all"
    ).fetchall()
    models = {file.stem for file in (PROJECT_ROOT / "dbt" / "models" / "marts").rglob("*.yml")}
    assert sorted(row[:3] for row in listed) == sorted(held)
    assert {row[0] for row in listed} == {*models, "publication"}
    for name, kind, _, n_rows, lake_tables, *texts in listed:
        assert all(text and text.strip() for text in texts), name
        assert set(lake_tables) <= set(TABLES), name
        if kind == "view":
            assert n_rows is None, name
        else:
            assert (n_rows,) == published.execute(f'select count(*) from "{name}"').fetchone(), name


def test_the_grain_is_a_key_of_its_table(published: duckdb.DuckDBPyConnection) -> None:
    for name, grain in published.execute("select table_name, grain from catalogue").fetchall():
        if name == "publication":
            continue
        columns = [column.strip() for column in grain.split(",")]
        assert all(re.fullmatch(r"[a-z_0-9]+", column) for column in columns), (name, grain)
        doubled = published.execute(
            f'select 1 from "{name}" group by {", ".join(columns)} having count(*) > 1 limit 1'
        ).fetchall()
        assert doubled == [], (name, grain)


def test_every_example_runs_on_the_locked_down_published_file(published: duckdb.DuckDBPyConnection) -> None:
    published.execute("set enable_external_access = false")
    for name, query in published.execute("select table_name, example_query from catalogue").fetchall():
        assert name in query, name
        assert len(published.extract_statements(query)) == 1, name
        published.execute(query).fetchall()
        assert len(published.execute(query).description) > 0


def test_no_example_drops_a_key_of_its_table(published: duckdb.DuckDBPyConnection) -> None:
    summed = {
        "fct_generated_passages": {"question_id"},
        "fct_question_consistency": {"question_id"},
        "fct_risk_coverage": {"coverage_step"},
        "fct_sampled_answers": {"sample"},
        "fct_sampling": {"popularity_decade"},
    }
    of_others = {"fct_prompts": {"paraphrase_id", "sample"}, "publication": {"one row"}}
    for name, grain, query in published.execute(
        "select table_name, grain, example_query from catalogue"
    ).fetchall():
        columns = {column[0] for column in published.execute(query).description or ()}
        keys = {*grain.split(", ")} - summed.get(name, set()) - of_others.get(name, set())
        assert {key for key in keys - columns if not re.search(rf"\b{key} = ", query)} == set(), (name, query)


def test_examples_of_docs_and_ready_questions_run_for_any_client(
    file: Path, published: duckdb.DuckDBPyConnection
) -> None:
    """A plain connection without a search path, and one that attaches the file under another name."""
    page = (PROJECT_ROOT / "docs/sql.md").read_text(encoding="utf-8")
    of_page = re.findall(r'\bQ="([^"]+)"', page) + re.findall(r"^    (select\b.+?);$", page, re.M | re.S)
    assert len(of_page) >= 4
    examples = [row[0] for row in published.execute("select example_query from catalogue").fetchall()]
    questions = [
        re.sub(r"\{\{ ref\('(\w+)'\) \}\}", r"\1", path.read_text(encoding="utf-8"))
        for path in sorted((PROJECT_ROOT / "dbt" / "analyses").glob("*.sql"))
    ]
    published.close()
    with duckdb.connect(str(file), read_only=True) as bare, duckdb.connect() as attaching:
        attaching.execute(f'attach {literal(str(file))} as "another name" (read_only)')
        attaching.execute('use "another name"')
        for query in [*of_page, *examples, *questions]:
            rows = bare.execute(query).fetchall()
            assert len(attaching.execute(query).fetchall()) == len(rows)
        for schema in ("main", "marts"):
            assert (
                bare.execute(
                    "select count(*), count(nullif(comment, '')) from duckdb_columns() "
                    "where schema_name = ? and not internal",
                    [schema],
                ).fetchone()
                == bare.execute("select sum(n_columns), sum(n_columns) from catalogue").fetchone()
            )


def test_every_value_reaches_a_python_client_that_has_duckdb_alone(file: Path) -> None:
    """A time with a zone needs another package, pytz, in Python."""
    code = (
        "import sys; sys.modules['pytz'] = None\n"
        "import duckdb; c = duckdb.connect(sys.argv[1], read_only=True)\n"
        "names = [name for (name,) in c.execute('select table_name from catalogue').fetchall()]\n"
        "for name in names: c.execute(f'select * from marts.{name} limit 3').fetchall()\n"
        "print(len(names), c.execute('select typeof(published_at) from publication').fetchone()[0])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True)
    assert re.fullmatch(r"\d\d TIMESTAMP\n", done.stdout), done.stderr


def test_accuracy_of_methods_and_recall_stand_beside_their_interval(
    published: duckdb.DuckDBPyConnection,
) -> None:
    """As the card of the export says."""
    columns: dict[str, set[str]] = {}
    for table, column in published.execute(
        "select table_name, column_name from duckdb_columns() where schema_name = 'marts'"
    ).fetchall():
        columns.setdefault(table, set()).add(column)
    rates = [
        (table, name)
        for table, names in columns.items()
        for name in names
        if re.fullmatch(r"accuracy|recall_at_\d+", name) and not table.startswith("fct_adaptive_")
    ]
    assert len(rates) > 8
    for table, name in rates:
        prefix = "" if name == "accuracy" else f"{name}_"
        assert {f"{prefix}ci_low", f"{prefix}ci_high"} <= columns[table], (table, name)
        assert any(column == "n" or column.startswith("n_") for column in columns[table]), table
    assert {"gain", "gain_ci_low", "gain_ci_high", "gain_ci_undefined"} <= columns["fct_adaptive_accuracy"]


def test_every_column_says_what_it_is(published: duckdb.DuckDBPyConnection) -> None:
    silent = published.execute(
        "select table_name, column_name from duckdb_columns() where schema_name = 'marts' "
        "and length(trim(coalesce(comment, ''))) < 3"
    ).fetchall()
    assert silent == []


def test_lineage_reaches_the_lake_through_what_stands_between(published: duckdb.DuckDBPyConnection) -> None:
    lineage = dict(published.execute("select table_name, lake_tables from catalogue").fetchall())
    assert lineage["dim_methods"] == ["methods"]
    assert {"answers", "questions", "page_views", "retrieved_passages"} <= set(
        lineage["fct_accuracy_by_popularity"]
    )
    assert "page_views" in lineage["fct_signal_quality"], "through a model in Python"


MARTS = {file.stem for file in (PROJECT_ROOT / "dbt" / "models" / "marts").rglob("*.sql")}
CORE = PROJECT_ROOT / "longtail"


def named_in(files: Iterable[Path]) -> set[str]:
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return set(re.findall(r"\b(?:fct|dim)_[a-z_]+", text)) & MARTS


@pytest.mark.parametrize(
    ("exposure", "files"),
    [
        ("report", sorted((CORE / "report").rglob("*.py"))),
        ("headline", [CORE / "warehouse" / "publication.py"]),
        ("router", sorted((CORE / "router").rglob("*.py"))),
    ],
)
def test_an_exposure_lists_what_its_code_reads(exposure: str, files: list[Path]) -> None:
    (declared,) = [
        one
        for one in yaml.safe_load((PROJECT_ROOT / "dbt/models/exposures.yml").read_text(encoding="utf-8"))[
            "exposures"
        ]
        if one["name"] == exposure
    ]
    refs = {re.fullmatch(r"ref\('(\w+)'\)", ref)[1] for ref in declared["depends_on"]}  # type: ignore[index]
    assert refs == named_in(files)
