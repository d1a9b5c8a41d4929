"""What dbt says about the lake follows from the lake's own columns: sources, types and descriptions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb
import yaml

from longtail.storage.home import PROJECT_ROOT
from longtail.storage.lake import Lake
from longtail.tables import TABLES
from longtail.warehouse.sources import (
    DOCS_FILE,
    NOT_READ,
    SOURCES_FILE,
    describe_columns,
    document_columns,
    lake_docs,
    lake_texts,
    sources_yaml,
)

MODELS = PROJECT_ROOT / "dbt" / "models"


def test_the_files_are_what_tables_say() -> None:
    written = SOURCES_FILE.read_text(encoding="utf-8"), DOCS_FILE.read_text(encoding="utf-8")
    assert written == (sources_yaml(), lake_docs()), "run `python -m longtail.warehouse.sources`"


def test_every_column_of_a_mart_has_a_description_its_own_or_the_lakes() -> None:
    own = {"columns": {"dataset": {"description": "said here"}, "new": {"description": ""}}}
    assert [one["description"] for one in describe_columns(own).values()] == ["said here", ""]
    for file in MODELS.glob("marts/**/*.yml"):
        (mart,) = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)["models"]
        columns = {one["name"]: {"description": "", **one} for one in mart["columns"]}
        found = describe_columns({"columns": columns})
        assert [name for name, one in found.items() if not one["description"]] == [], file.name
        shared = {f"{{{{ doc('{block}') }}}}" for name in columns for block in (name, f"lake_{name}")}
        plain = describe_columns({"columns": {name: {"description": ""} for name in columns}})
        said = [(name, one["description"]) for name, one in columns.items() if one["description"] in shared]
        assert [name for name, text in said if _resolve(text) == plain[name]["description"]] == [], file.name


def _resolve(description: str) -> str:
    """A description that is one docs block, as its text."""
    block = re.escape(description.split("'")[1])
    files = "".join(file.read_text(encoding="utf-8") for file in (DOCS_FILE, MODELS / "docs.md"))
    return re.findall(rf"{{% docs {block} %}}(.*?){{% enddocs %}}", files)[0]


def test_no_description_of_the_lake_is_typed_again_in_dbt() -> None:
    texts = {text for text in lake_texts().values() if len(text) > 25}
    for file in [*MODELS.rglob("*.yml"), MODELS / "docs.md"]:
        written = re.findall(r'description: "(.*)"$|%}(.*)\{%', file.read_text(encoding="utf-8"), re.M)
        assert texts & {text for found in written for text in found} == set(), file.name


def test_every_table_maps_to_its_asset_and_selects_its_columns() -> None:
    (source,) = yaml.safe_load(SOURCES_FILE.read_text(encoding="utf-8"))["sources"]
    declared = {table["name"]: table for table in source["tables"]}
    assert source["name"] == "lake"
    assert set(declared) == set(TABLES) - NOT_READ
    for name, table in declared.items():
        assert table["config"]["meta"]["dagster"]["asset_key"] == ["lake", name]
        assert json.loads(f"[{table['config']['meta']['selected']}]") == TABLES[name].schema.names


def test_declared_types_are_those_that_duckdb_reads(tmp_path: Path) -> None:
    Lake(tmp_path).ensure_schemas()
    for name in TABLES:
        read = duckdb.sql(f"describe from read_parquet('{tmp_path}/{name}/*.parquet')").fetchall()
        declared = [(one["name"], one["data_type"]) for one in document_columns(name).values()]
        assert [(row[0], row[1].lower()) for row in read] == declared, name
