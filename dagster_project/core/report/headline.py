"""The headline apart from the page: the picture of the project's front page, and its numbers by name.

What belongs here: two figures of the report in one picture, and the rows of a third figure as single numbers. What does
not: the figures.
"""

from __future__ import annotations

from collections.abc import Sequence

from dagster_project.core.report.charts import Dimensions
from dagster_project.core.report.figures.adaptive import GAIN
from dagster_project.core.report.figures.memory import BY_POPULARITY
from dagster_project.core.report.figures.overview import HEADLINE
from dagster_project.core.report.pictures import first_shown, png, specification
from dagster_project.core.report.rows import FigureRows

_WIDTH = 1060


def headline_numbers(read: Sequence[FigureRows]) -> dict[str, float]:
    """Accuracy of each model and method, and the gain of adaptive retrieval, by a name for each.

    A name is `accuracy/<model>/<method>` or `adaptive_gain/<model>/<method>`; it holds dataset and prompt too where the
    study has several.
    """
    rows = [row for one in read if one.figure.key == HEADLINE.key for row in one.rows]
    several = [name for name in ("dataset", "prompt") if len({row[name] for row in rows}) > 1]
    numbers = {}
    for row in rows:
        key = "/".join(row[name] for name in (*several, "model", "method"))
        for measure, column in (("accuracy", "accuracy"), ("adaptive_gain", "gain")):
            if row[column] is not None:
                numbers[f"{measure}/{key}"] = float(row[column])
    return numbers


def headline_picture(read: Sequence[FigureRows], dimensions: Dimensions) -> bytes | None:
    """PNG of both figures, one above the other; None without curves."""
    above = []
    config = None
    for one in read:
        rows = first_shown(one, dimensions)
        if one.figure.key in (BY_POPULARITY.key, GAIN.key) and one.figure.spec and rows:
            spec = specification(one.figure.spec, rows, dimensions, _WIDTH)
            config = {**spec.pop("config"), "padding": spec.pop("padding")}
            spec.pop("autosize", None)
            above.append(
                {**spec, "title": {"text": one.figure.title, "anchor": "start", "fontSize": 15, "offset": 12}}
            )
    if not above or above[0].get("facet") is None:
        return None
    apart = {channel: "independent" for channel in ("color", "shape")}
    return png(
        {"vconcat": above, "config": config, "spacing": 30, "resolve": {"scale": apart, "legend": apart}}
    )
