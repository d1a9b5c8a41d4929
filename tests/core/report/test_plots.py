"""The popularity axis says what popularity is in this study."""

from __future__ import annotations

from pathlib import Path

import duckdb

from dagster_project.core.report.plots import accuracy_by_popularity, popularity_label


def warehouse(folder: Path, measure: str) -> Path:
    path = folder / f"{measure}.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("create schema marts")
        connection.execute(
            "create table marts.fct_accuracy_by_popularity as select 'd' as dataset, 'p' as prompt, 'm' as model, "
            "'bm25' as method, 'all' as relation, bin, bin::double as bin_center_log10, 50 as n, "
            "0.5 as accuracy, 0.4 as ci_low, "
            "0.6 as ci_high from range(3) bins (bin)"
        )
        connection.execute(
            "create table marts.fct_adaptive_accuracy as select 'd' as dataset, 'p' as prompt, 'm' as model, "
            "'bm25' as retrieval_method, 'exact' as search, 'per_relation' as threshold_scope, "
            "0.1 as gain, 0.0 as gain_ci_low, "
            "0.2 as gain_ci_high"
        )
        connection.execute("create table marts.dim_models as select 'm' as model, 1 as n_parameters")
        connection.execute("create table marts.fct_answers (popularity_measure varchar)")
        connection.execute("insert into marts.fct_answers values (?), (?), (null)", [measure, measure])
    return path


def test_the_axis_names_the_measure_of_the_answers(tmp_path: Path) -> None:
    assert popularity_label({"page_views"}) == "monthly page views (log10)"
    assert popularity_label({"sitelinks"}) == "sitelinks (log10)"
    assert popularity_label(set()) == "popularity (log10)"
    views, links = (accuracy_by_popularity(warehouse(tmp_path, m)) for m in ("page_views", "sitelinks"))
    assert views.startswith(b"\x89PNG")
    assert views != links
