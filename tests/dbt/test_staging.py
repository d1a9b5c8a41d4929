"""Staging shows the rows that a study declares, whatever else the lake holds: each key is looked at by itself."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb

from longtail.storage.lake import Lake
from longtail.study.study import Study
from longtail.tables import TABLES

DECLARED = {
    "datasets": "select 'd' as dataset",
    "models": "select 'm' as model",
    "methods": "select * from (values ('memory', true, 'memory'), ('unasked', false, 'background')) "
    "as t (method, asks_questions, kind)",
    "prompts": "select * from (values ('p', ['questions', 'paraphrases', 'samples', 'candidates', 'grounding'], 0.5, 2), "
    "('unasked', [], 0.5, 2)) as t (prompt, generations, temperature, n_samples)",
    "grounding_prompts": "select 'g' as grounding_prompt",
    "sweep_settings": "select 's' as tuned_model",
}
KEYS = {
    "dataset": ["d", "gone"], "model": ["m", "gone"], "tuned_model": ["s", "gone"], "grounding_prompt": ["g", "gone"],
    "method": ["memory", "gone", "unasked"], "retriever": ["memory", "gone", "unasked"], "prompt": ["p", "gone"],
    "temperature": [0.5, 0.25], "sample": [1, 2], "paraphrase_id": [0],
}  # fmt: skip
"""A value that the study declares, and others."""
NOT_LIMITED = {
    "stg_generation__answer_entailments": {"dataset", "prompt"},
    "stg_generation__tuned_answers": {"dataset"},
    "stg_generation__grounded_answers": {"method"},
    "stg_generation__grounded_generations": {"method"},
    "stg_grounding__quip_scores": {"method", "prompt"},
}
"""Keys that a later model joins with rows that are limited."""
UNLIMITED = {
    "stg_imports__entity_linking", "stg_imports__popularity", "stg_reference__mentions", "stg_reference__questions",
    "stg_retrieval__search_recalls", "stg_audit__lake_rows",
}  # fmt: skip
"""Of the lake as a whole, though they name datasets."""
SOURCE = re.compile(r"read_parquet\('.*?/(\w+)/\*\.parquet', \(union_by_name = CAST\('t' AS BOOLEAN\)\)\)")
"""How a view reads a lake table; that of its rows comes first."""


def test_a_row_with_one_key_that_the_study_does_not_declare_is_left_out(unanswered: Study) -> None:
    with duckdb.connect(str(unanswered.home.build_warehouse), read_only=True) as build:
        views = dict(
            build.execute(
                "select view_name, sql from duckdb_views() where schema_name = 'staging'"
            ).fetchall()
        )
    whole_tables = {f"stg_study__{name}" for name in DECLARED} | UNLIMITED
    limited = {name: sql for name, sql in views.items() if name not in whole_tables}
    shown = {}
    with duckdb.connect() as connection:
        connection.execute(
            "attach ':memory:' as warehouse; use warehouse; create schema staging; create schema lake"
        )
        for table, source in {
            read[1]: read[0] for sql in views.values() for read in SOURCE.finditer(sql)
        }.items():
            connection.execute(f"create table lake.{table} as from {source} limit 0")
        for table, rows in DECLARED.items():
            connection.execute(f"insert into lake.{table} by name {rows}")
        for name, sql in limited.items():
            table = SOURCE.search(sql)[1]
            keys = {row[0] for row in connection.sql(f"describe lake.{table}").fetchall()} & {*KEYS}
            if not keys:
                continue
            limits = keys - NOT_LIMITED.get(name, set())
            whole = {key: KEYS[key][0] for key in keys}
            connection.execute(f"delete from lake.{table}")
            for row in (whole, *({**whole, key: value} for key in limits for value in KEYS[key][1:])):
                values = ", ".join("?" for _ in row)
                connection.execute(
                    f"insert into lake.{table} ({', '.join(row)}) values ({values})", [*row.values()]
                )
            connection.execute(SOURCE.sub(r"lake.\1", sql))
            shown[name] = connection.sql(f"select count(*) from staging.{name}").fetchone()
    assert {name: n for name, n in shown.items() if n != (1,)} == {}


def test_a_file_of_an_earlier_version_has_the_columns_of_today(unanswered: Study, tmp_path: Path) -> None:
    Lake(tmp_path).ensure_schemas()
    old = tmp_path / "models" / "old.parquet"
    duckdb.sql(f"copy (select 'm' as model, 1.5 as removed_since) to '{old}'")
    with duckdb.connect(str(unanswered.home.build_warehouse), read_only=True) as build:
        (view,) = build.execute(
            "select sql from duckdb_views() where view_name = 'stg_study__models'"
        ).fetchone()
    with duckdb.connect() as connection:
        connection.execute("attach ':memory:' as warehouse; use warehouse; create schema staging")
        connection.execute(re.sub(r"'/.*/models/", f"'{tmp_path}/models/", view))
        shown = connection.sql("from staging.stg_study__models")
        row = dict(zip(shown.columns, shown.fetchone(), strict=True))
    assert [*row] == TABLES["models"].schema.names
    assert (row["model"], row["n_parameters"]) == ("m", None)
