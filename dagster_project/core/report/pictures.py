"""The figures as PNG, drawn from the same specifications as on the page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dagster_project.core.report.charts import Dimensions, fitted, placed, present, resolve
from dagster_project.core.report.palette import PICTURE_FONT, chart_config, colours, painted
from dagster_project.core.report.rows import FigureRows

WIDTH = 960
_SCALE = 1.0
_FILTERED = ("dataset", "prompt")


def first_shown(read: FigureRows, dimensions: Dimensions) -> list[Mapping[str, Any]]:
    """The rows that a page shows at first: the first dataset and prompt, and the first value of each column to choose."""
    rows: list[Mapping[str, Any]] = list(read.rows)
    for name in (*_FILTERED, *read.figure.choose):
        if name in read.names and rows:
            values = present(rows, name, dimensions)
            rows = [row for row in rows if not values or row[name] == values[0]]
    return rows


def picture(read: FigureRows, dimensions: Dimensions, width: int = WIDTH) -> bytes | None:
    """PNG of a figure, or None if it has no chart or no rows."""
    rows = first_shown(read, dimensions)
    if read.figure.spec is None or not rows:
        return None
    return png(specification(read.figure.spec, rows, dimensions, width))


def specification(
    spec: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], dimensions: Dimensions, width: int
) -> dict[str, Any]:
    """A whole Vega-Lite specification with its data, in the light theme, `width` pixels wide.

    Colours are filled in before data and labels, because these may look like a colour.
    """
    sized = fitted(resolve(painted(spec), rows, dimensions), rows, width)
    if sized.get("width") == "container":
        sized["width"] = width
    base = painted(chart_config())
    config = {**base, "font": PICTURE_FONT, "background": colours("light")["surface"]}
    fitting = sized.pop("config")
    config |= {"legend": {**base["legend"], **fitting["legend"]}, "axisY": fitting["axisY"]}
    return {**sized, "data": {"values": placed(spec, rows, dimensions)}, "config": config, "padding": 14}


def png(spec: Mapping[str, Any], scale: float = _SCALE) -> bytes:
    """PNG of a whole Vega-Lite specification."""
    import vl_convert

    drawn = vl_convert.vegalite_to_png(json.loads(json.dumps(spec)), scale=scale)
    return bytes(drawn)
