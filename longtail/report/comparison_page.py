"""The page of a comparison, `compare.html`: the report's page with figures of its own, and the table beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from longtail.report.charts import Dimensions
from longtail.report.comparison import compare, why_none
from longtail.report.figure import Column, Figure, Section, bounds
from longtail.report.marks import difference_x, names, points, series, single
from longtail.report.page import render
from longtail.report.report import shown
from longtail.report.rows import FigureRows, in_order, legible, select
from longtail.storage.files import atomic_file

_SECTIONS = (
    ("answers", "Accuracy"),
    ("adaptive", "Adaptive retrieval"),
    ("questions", "Questions"),
    ("study", "The study"),
)
_CHANGE = points(
    difference_x("difference", "change in accuracy, B − A", 8), names("model"), series("method", "method"),
    interval=bounds("difference"), offset="method", zero=True,
)  # fmt: skip
_FIGURES = {  # by topic: section, title, caption
    "accuracy": (
        "answers", "Accuracy on the questions that both answered",
        "Accuracy in B minus accuracy in A, with a bootstrap 95 % interval (10,000 resamples of subjects). With "
        "fewer than 20 subjects there is none. The table has how many answers are right now and were wrong, and the "
        "reverse."),
    "thresholds": (
        "adaptive", "Where the thresholds moved",
        "Adaptive retrieval retrieves below a threshold (search `exact`), always, or never. A threshold moved if its "
        "number or the decision is another. Relation `all` has one threshold for all relations."),
    "gains": (
        "adaptive", "What adaptive retrieval gains",
        "Held-out accuracy over the better of always and never, in each file, with its 95 % interval."),
    "popularity": (
        "questions", "The questions that both have",
        "How many have another wording or other gold answers, and how far popularity drifted: median of B / A, rank "
        "correlation, how many more than doubled or fell to less than half."),
    "movers": (
        "questions", "The subjects whose popularity changed most",
        "The 20 largest changes of a dataset, up or down. The ratio is (B + 1) / (A + 1), so that zero counts too."),
    "settings": (
        "study", "What changed in the study",
        "Settings, models, methods, prompts, relations and versions, as published. What one file alone has comes first."),
}  # fmt: skip
_KINDS = {
    **dict.fromkeys(("threshold", "popularity", "ratio", "median", "rank"), "number"),
    **{"n": "count", "is": "flag", "accuracy": "share", "share": "share", "difference": "signed", "gain": "signed"},
}  # fmt: skip
_LABELS = {"parametric_method": "memory", "retrieval_method": "retrieval", "threshold_scope": "thresholds"}


def write_comparison(a: Path, b: Path, folder: Path) -> list[str]:
    """Write `compare.html` and `compare.parquet` to `folder`; return what was found, in lines.

    Errors: `PublishError` if a file cannot be compared, `LakeError` if one cannot be written.
    """
    first, second, found = compare(a, b)
    missing = {topic: why_none(topic, first, second) for topic, rows in found.items() if not len(rows)}
    findings = _findings({topic: rows.to_pylist() for topic, rows in found.items()}, missing)
    mine, others = first.dimensions.order, second.dimensions.order
    shared = {role: [value for value in mine[role] if value in others[role]] for role in mine}  # stands first
    order = {role: list(dict.fromkeys([*shared[role], *mine[role], *others[role]])) for role in mine}
    dimensions = Dimensions(order, {})
    read = [in_order(_read(topic, rows, missing.get(topic)), dimensions) for topic, rows in found.items()]
    about = {key: f"{first.about[key]} (A) and {second.about[key]} (B)" for key in ("name", "published")}
    page = {
        "study": {"description": "A and B, side by side", **about},
        "lead": "What A and B share is compared; differences are B minus A.",
        "banner": first.banner or second.banner,
        "provenance": {"A": str(a), "B": str(b)},
        "findings": findings,
        **shown([Section(*one, "", is_chapter=False) for one in _SECTIONS], read, dimensions),
    }  # fmt: skip
    html, parquet = folder / "compare.html", folder / "compare.parquet"
    named = [rows.add_column(0, "topic", [[topic] * len(rows)]) for topic, rows in found.items()]
    with atomic_file(parquet, folder) as temporary:
        pq.write_table(pa.concat_tables(named, promote_options="permissive"), temporary)
    with atomic_file(html, folder) as temporary:
        temporary.write_text(render(page), encoding="utf-8")
    return [*findings, f"page: {html}; table: {parquet}"]


def _read(topic: str, found: pa.Table, missing: str | None) -> FigureRows:
    section, title, shows = _FIGURES[topic]
    with duckdb.connect() as memory:
        memory.register("found", found)
        columns, rows = select(memory, "from found")
    figure = Figure(
        topic, section, title, shows, "", (), f"from 'compare.parquet' where topic = '{topic}'",
        tuple(_column(name) for name in columns if "_ci_" not in name),
        single(_CHANGE, rows="model", step=70) if topic == "accuracy" else None,
        ("threshold_scope",) if topic == "gains" else (),
        "chart" if topic == "accuracy" else "table",
    )  # fmt: skip
    return FigureRows(figure, columns, rows, missing)


def _column(name: str) -> Column:
    """Label and kind follow from the name; an interval stands beside its value."""
    first, *more = name.split("_")
    label = _LABELS.get(name) or " ".join(more if first in ("n", "is") else (first, *more))
    if label[-2:] in (" a", " b"):
        label = label[:-1] + label[-1].upper()
    kind = "text" if name in _LABELS else _KINDS.get(first, "text")
    low, high = (f"{end}_{more[-1]}" if first == "gain" else end for end in bounds(first))
    return Column(name, label, kind, (low, high) if kind == "signed" else None)


def _findings(found: dict[str, list[dict[str, Any]]], missing: dict[str, str]) -> list[str]:
    """A sentence on each of four topics, or why there is none."""
    said = dict(missing)
    if rows := found["accuracy"]:
        judged = [row for row in rows if row["difference_ci_low"] is not None]
        n_sure = sum(row["difference_ci_low"] > 0 or row["difference_ci_high"] < 0 for row in judged)
        top = max(rows, key=lambda row: abs(row["difference"]))
        ends = "no interval"
        if top in judged:
            ends = f"{100 * top['difference_ci_low']:+.1f}, {100 * top['difference_ci_high']:+.1f}"
        said["accuracy"] = (
            f"{n_sure} of {len(rows)} differences in accuracy have an interval without 0. The largest is {top['model']}, "
            f"{top['method']}: {100 * top['difference']:+.1f} points [{ends}]; of {top['n_shared']:,} answers "
            f"{top['n_now_right']:,} are now right, {top['n_now_wrong']:,} now wrong."
        )
    if rows := found["thresholds"]:
        said["thresholds"] = f"{sum(row['is_moved'] for row in rows):,} of {len(rows):,} thresholds moved."
    if rows := found["popularity"]:
        said["popularity"] = " ".join(
            f"{row['dataset']}: {row['n_shared']:,} questions in both, {row['n_with_popularity']:,} with popularity; "
            f"{row['n_more_than_doubled']:,} more than doubled, {row['n_less_than_halved']:,} fell to less than half."
            for row in rows
        )
    if rows := found["settings"]:
        n_lone = sum(row["setting"] == "published" for row in rows)
        said["settings"] = (
            f"{len(rows) - n_lone:,} settings differ; {n_lone:,} models, methods or other parts are only in one."
        )
    return [legible(said[topic]) for topic in ("accuracy", "thresholds", "popularity", "settings")]
