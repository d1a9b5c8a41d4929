"""Writing the report: `report.html`, its pictures and `answers.html`, from a published warehouse alone.

It runs without Dagster.
"""

from __future__ import annotations

import datetime
import json
import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from longtail.progress import Progress
from longtail.report.answers import write_answers
from longtail.report.figure import (
    PICTURE_FONT,
    ROLES,
    Dimensions,
    Figure,
    Section,
    chart_config,
    colours,
    fill_words,
    fit,
    paint,
    place_rows,
    present,
    resolve,
)
from longtail.report.figures import FIGURES, SECTIONS
from longtail.report.figures.memory import HEADLINE
from longtail.report.figures.verdicts import VERDICTS
from longtail.report.page import columnar, render
from longtail.report.published import (
    FigureRows,
    banner,
    in_order,
    legible,
    list_fictional_models,
    list_tables,
    provenance,
    read_dimensions,
    read_figure,
    study,
)
from longtail.storage.checksums import record_files
from longtail.storage.files import atomic_file
from longtail.warehouse.publication import open_publication, record_of

ANSWERS_PAGE = "answers.html"
_LOG = logging.getLogger("longtail")


@dataclass(frozen=True)
class ReportFiles:
    """The written files. By figure: `pictures`, its PNG; `missing`, why it is not shown.

    `answers`: the second page. `numbers`: the numbers of the headline, by name (see `headline_numbers`).
    """

    path: Path
    n_bytes: int
    seconds: float
    pictures: dict[str, Path]
    missing: dict[str, str]
    numbers: dict[str, float]
    n_figures: int
    answers: Path


def write_report(
    published: Path,
    target: Path,
    figures_folder: Path | None = None,
    log: logging.Logger = _LOG,
    figures: Sequence[Figure] = FIGURES,
) -> ReportFiles:
    """Write the report of the published warehouse at `published` to `target`, and its pictures to `figures_folder`.

    Its links lead to `answers.html`, which is written beside it.

    Each file appears whole or not at all. Without a folder no pictures are drawn. Errors: `PublishError` without a
    published warehouse, `LakeError` if a file cannot be written.
    """
    began = time.monotonic()
    with open_publication(published) as connection:
        tables = list_tables(connection)
        dimensions = read_dimensions(connection)
        read = [in_order(read_figure(connection, figure, tables), dimensions) for figure in figures]
        page = render(payload(connection, read, dimensions))
        answers = write_answers(connection, head(connection, dimensions), target.with_name(ANSWERS_PAGE))
    _write(target, page.encode("utf-8"))
    drawn = _draw(read, dimensions, figures_folder, log) if figures_folder else {}
    beside = [picture for picture in drawn.values() if picture.is_relative_to(target.parent)]
    record_files(record_of(target), [target, *beside])
    n_bytes = target.stat().st_size
    seconds = time.monotonic() - began
    missing = {figure_rows.figure.key: figure_rows.missing for figure_rows in read if figure_rows.missing}
    n_figures = len(read) - len(missing)
    log.info("report: %d of %d figures, %.1f MB in %.1f s", n_figures, len(read), n_bytes / 1e6, seconds)
    return ReportFiles(target, n_bytes, seconds, drawn, missing, headline_numbers(read), n_figures, answers)


def payload(
    connection: duckdb.DuckDBPyConnection, read: Sequence[FigureRows], dimensions: Dimensions
) -> dict[str, Any]:
    """Everything that the scripts of the page read, ready for JSON."""
    return {
        **head(connection, dimensions),
        "lead": "When not to trust a language model: accuracy against popularity, retrieval, and the threshold between "
        "them.",
        "answers": ANSWERS_PAGE,
        "provenance": provenance(connection, datetime.datetime.now(datetime.UTC)),
        "unranked": _methods(connection, "is_bound or is_condition"),
        "invented": [legible(model) for model in list_fictional_models(connection)],
        **figures_payload(SECTIONS, read, dimensions),
    }


def figures_payload(
    sections: Sequence[Section], read: Sequence[FigureRows], dimensions: Dimensions
) -> dict[str, Any]:
    """The part of it that draws figures."""
    return {
        **_order(dimensions, read),
        "roles": ROLES,
        "config": chart_config(),
        "sections": [
            {name: value for name, value in vars(section).items() if name != "figures"}
            for section in sections
        ],
        "figures": [
            _figure(figure_rows, section.key, dimensions)
            for section in sections
            for figure_rows in read
            if figure_rows.figure.key in {figure.key for figure in section.figures}
        ],
    }


def head(connection: duckdb.DuckDBPyConnection, dimensions: Dimensions) -> dict[str, Any]:
    """What both pages say of the study."""
    return {
        "study": study(connection),
        "banner": banner(connection),
        "parametric": _methods(connection, "is_parametric"),
        **_order(dimensions),
    }


def _order(dimensions: Dimensions, read: Sequence[FigureRows] = ()) -> dict[str, Any]:
    """The order of all values, and where a page starts: with the dataset that most of the figures `read` have rows of."""
    start = {name: next(iter(dimensions.order[name]), "") for name in ("dataset", "prompt")}
    n_figures = Counter(
        name
        for figure_rows in read
        if "dataset" in figure_rows.names
        for name in {row["dataset"] for row in figure_rows.rows}
    )
    start["dataset"] = max(dimensions.order["dataset"], key=lambda name: n_figures[name], default="")
    return {"dimensions": vars(dimensions), "start": start}


def _figure(read: FigureRows, section: str, dimensions: Dimensions) -> dict[str, Any]:
    figure = read.figure
    is_among_scores = figure is VERDICTS and len(dimensions.order["dataset"]) == 1
    return {
        "key": figure.key,
        "section": "scores" if is_among_scores else section,
        "kind": figure.kind,
        "title": figure.title,
        "shows": fill_words(figure.shows, dimensions),
        "source": figure.source,
        "sql": figure.sql,
        "choose": figure.choose,
        "leads_to_answers": figure.leads_to_answers,
        "missing": read.missing,
        "spec": figure.spec,
        "columns": [vars(column) for column in read.columns],
        "data": columnar(read),
    }


def _methods(connection: duckdb.DuckDBPyConnection, flag: str) -> list[str]:
    """The methods whose row in dim_methods meets the condition `flag`."""
    sql = f"select method from marts.dim_methods where {flag} order by method"  # noqa: S608
    rows = connection.execute(sql).fetchall()
    return [legible(method) for (method,) in rows]


def _draw(
    read: Sequence[FigureRows], dimensions: Dimensions, folder: Path, log: logging.Logger
) -> dict[str, Path]:
    drawn: dict[str, Path] = {}
    progress = Progress(log, "report: figures drawn", len(read))
    for figure_rows in read:
        image = picture(figure_rows, dimensions)
        if image is not None:
            drawn[figure_rows.figure.key] = folder / f"{figure_rows.figure.key}.png"
            _write(drawn[figure_rows.figure.key], image)
        progress.add(1)
    progress.done()
    for stale in set(folder.glob("*.png")) - set(drawn.values()):
        stale.unlink()
    return drawn


def _write(path: Path, content: bytes) -> None:
    with atomic_file(path) as temporary:
        temporary.write_bytes(content)


def headline_numbers(read: Sequence[FigureRows]) -> dict[str, float]:
    """Accuracy of each model and method, and the gain of adaptive retrieval, by a name for each.

    A name is `accuracy/<model>/<method>` or `adaptive_gain/<model>/<method>`; it holds dataset and prompt too where the
    study has several.
    """
    rows = [row for figure_rows in read if figure_rows.figure.key == HEADLINE.key for row in figure_rows.rows]
    several = [name for name in ("dataset", "prompt") if len({row[name] for row in rows}) > 1]
    numbers = {}
    for row in rows:
        key = "/".join(row[name] for name in (*several, "model", "method"))
        for measure, column in (("accuracy", "accuracy"), ("adaptive_gain", "gain")):
            if row[column] is not None:
                numbers[f"{measure}/{key}"] = float(row[column])
    return numbers


WIDTH = 960
_FILTERED = ("dataset", "prompt")


def first_shown(read: FigureRows, dimensions: Dimensions) -> list[Mapping[str, Any]]:
    """The rows that a page shows at first: the first dataset and prompt, and the first value of each column to choose."""
    rows: list[Mapping[str, Any]] = list(read.rows)
    for name in (*_FILTERED, *read.figure.choose):
        if name in read.names and rows:
            values = present(rows, name, dimensions)
            rows = [row for row in rows if not values or row[name] == values[0]]
    return rows


def picture(read: FigureRows, dimensions: Dimensions) -> bytes | None:
    """PNG of a figure, or None if it has no chart or no rows."""
    rows = first_shown(read, dimensions)
    if read.figure.spec is None or not rows:
        return None
    return png(specification(read.figure.spec, rows, dimensions, WIDTH))


def specification(
    spec: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], dimensions: Dimensions, width: int
) -> dict[str, Any]:
    """A whole Vega-Lite specification with its data, in the light theme, `width` pixels wide.

    Colours are filled in before data and labels, because these may look like a colour.
    """
    sized = fit(resolve(paint(spec), rows, dimensions), rows, width)
    if sized.get("width") == "container":
        sized["width"] = width
    base = paint(chart_config())
    config = {**base, "font": PICTURE_FONT, "background": colours("light")["surface"]}
    fitting = sized.pop("config")
    config |= {"legend": {**base["legend"], **fitting["legend"]}, "axisY": fitting["axisY"]}
    return {**sized, "data": {"values": place_rows(spec, rows, dimensions)}, "config": config, "padding": 14}


def png(spec: Mapping[str, Any]) -> bytes:
    """PNG of a whole Vega-Lite specification."""
    import vl_convert

    drawn = vl_convert.vegalite_to_png(json.loads(json.dumps(spec)))
    return bytes(drawn)
