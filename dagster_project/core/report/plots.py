"""Pictures of the published marts.

What belongs here: drawing numbers that the marts hold. What does not: computing any (dbt does).
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from dagster_project.core.errors import PublishError

MIN_BIN_ROWS = 40  # SPEC §6: plots leave out bins with fewer
_COLOURS = {"closed_book": "#1b4965", "bm25": "#d1495b", "dense": "#edae49", "oracle": "#7a9e7e"}
_OTHER = "#6c757d"

_CURVES = """
select dataset, prompt, model, method, bin_center_log10, n, accuracy, ci_low, ci_high
from marts.fct_accuracy_by_popularity
where relation = 'all' and n >= $min_rows
order by dataset, prompt, model, method, bin
"""
_ADAPTIVE = """
select
    dataset, prompt, model, retrieval_method, gain, gain_ci_low, gain_ci_high
from marts.fct_adaptive_accuracy
where search = 'exact' and threshold_scope = 'per_relation'
order by dataset, prompt, model, retrieval_method
"""
_MEASURES = "select distinct popularity_measure from marts.fct_answers where popularity_measure is not null"
_AXIS = {
    "page_views": "monthly page views (log10)",
    "sitelinks": "sitelinks (log10)",
    "imported": "popularity as the imported file gives it (log10)",
}
_SIZES = "select model, n_parameters from marts.dim_models"


@dataclass(frozen=True)
class Curve:
    """Accuracy of one (model, method) over popularity: bin centres in log10 views, with Wilson intervals."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def accuracy_by_popularity(warehouse: Path) -> bytes:
    """PNG: accuracy against popularity, one panel a model, and what adaptive retrieval makes of it.

    Shows the first dataset and prompt of the warehouse (PopQA, Figures 4 and 9). Errors: `PublishError` without
    a published warehouse.
    """
    if not warehouse.exists():
        raise PublishError(f"{warehouse}: nothing is published yet; materialise published_warehouse first")
    with duckdb.connect(str(warehouse), read_only=True) as connection:
        curves = _rows(connection, _CURVES, {"min_rows": MIN_BIN_ROWS})
        adaptive = _rows(connection, _ADAPTIVE, {})
        measures = {row["popularity_measure"] for row in _rows(connection, _MEASURES, {})}
        sizes = {row["model"]: row["n_parameters"] or 0 for row in _rows(connection, _SIZES, {})}
    first = {(row["dataset"], row["prompt"]) for row in curves[:1]}
    shown = [row for row in curves if (row["dataset"], row["prompt"]) in first]
    pairs = [row for row in adaptive if (row["dataset"], row["prompt"]) in first]
    models = sorted({row["model"] for row in shown}, key=lambda model: (sizes.get(model, 0), model))
    return _draw(
        models, _curves(shown), pairs, next(iter(first), ("no rows", "")), popularity_label(measures)
    )


def popularity_label(measures: Collection[str]) -> str:
    """Label of the popularity axis for the measures that the answers carry: one a study."""
    return _AXIS[next(iter(measures))] if len(measures) == 1 else "popularity (log10)"


def _rows(
    connection: duckdb.DuckDBPyConnection, query: str, parameters: Mapping[str, Any]
) -> list[dict[str, Any]]:
    cursor = connection.execute(query, parameters or None)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _curves(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Curve]:
    grouped: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        grouped[row["model"], row["method"]].append(row)
    return {
        key: Curve(
            *(
                tuple(float(row[column]) for row in group)
                for column in ("bin_center_log10", "accuracy", "ci_low", "ci_high")
            )
        )
        for key, group in grouped.items()
    }


def _draw(
    models: Sequence[str],
    curves: Mapping[tuple[str, str], Curve],
    pairs: Sequence[Mapping[str, Any]],
    shown: tuple[str, str],
    popularity: str,
) -> bytes:
    from matplotlib.figure import Figure

    panels = max(len(models), 1) + 1
    figure = Figure(figsize=(3.6 * panels, 3.9), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    for axis in axes[:-1]:
        axis.set_ylim(0, 1.02)
    for axis, model in zip(axes, models, strict=False):
        _draw_model(axis, model, curves)
        axis.set_xlabel(popularity)
    axes[0].set_ylabel("accuracy")
    _draw_adaptive(axes[-1], models, pairs)
    handles = {
        label: handle
        for axis in axes[:-1]
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    if handles:
        figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), frameon=False
        )
    figure.suptitle(f"Accuracy against popularity: dataset {shown[0]}, prompt {shown[1]}", fontsize=12)
    sink = io.BytesIO()
    figure.savefig(sink, format="png", dpi=110)
    return sink.getvalue()


def _draw_model(axis: Any, model: str, curves: Mapping[tuple[str, str], Curve]) -> None:
    ordered = sorted(curves.items(), key=lambda item: (*_COLOURS, item[0][1]).index(item[0][1]))
    for (name, method), curve in ordered:
        if name != model:
            continue
        colour = _COLOURS.get(method, _OTHER)
        axis.plot(curve.x, curve.y, "o-", color=colour, label=method, markersize=3.5, linewidth=1.8)
        axis.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
    axis.set_title(model, fontsize=10)
    _tidy(axis)


def _draw_adaptive(axis: Any, models: Sequence[str], pairs: Sequence[Mapping[str, Any]]) -> None:
    """What adaptive retrieval gains over the better of always and never, with its bootstrap interval."""
    retrievers = [name for name in _COLOURS if any(row["retrieval_method"] == name for row in pairs)]
    for row in pairs:
        if row["model"] not in models or row["gain"] is None:
            continue
        shift = (retrievers.index(row["retrieval_method"]) - (len(retrievers) - 1) / 2) * 0.22
        place = models.index(row["model"]) + shift
        colour = _COLOURS.get(row["retrieval_method"], _OTHER)
        if row["gain_ci_low"] is not None:
            axis.plot([place, place], [row["gain_ci_low"], row["gain_ci_high"]], color=colour, linewidth=1.8)
        axis.scatter([place], [row["gain"]], s=30, color=colour, zorder=2)
    axis.axhline(0, color="#888888", linewidth=0.8)
    axis.set_xticks(range(len(models)), models, fontsize=8)
    axis.set_xlim(-0.6, max(len(models), 1) - 0.4)
    axis.set_title("adaptive retrieval: gain over\nthe better of always and never", fontsize=10)
    _tidy(axis)


def _tidy(axis: Any) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color="#e5e5e5", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8)
