"""Pieces of charts that several figures share: curves with bands, points with intervals, cells with numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from longtail.report.figure import PANEL, STEPS, Spec, bounds, spread

_NOWHERE = {
    "x": {"y": None, "yOffset": None, "color": {"value": "var(--muted)"}},
    "y": {"x": None, "xOffset": None, "color": {"value": "var(--muted)"}},
}
_POWERS = [10**exponent for exponent in range(-3, 13)]
LOG_TICKS = [digit * power for power in _POWERS for digit in (1, 2, 5)]
"""Ticks of an axis that may span less than a decade or two."""
SHARE_AXIS = {"format": "%", "tickCount": 5, "labelOverlap": True}
SHARES = {"domain": [0, 1], "scheme": "blues"}
POPULARITY = {"$label": "popularity"}


def quantity(field: str, title: Any, axis: Spec, scale: Spec | None = None) -> dict[str, Any]:
    """Numbers along an axis."""
    along = {"field": field, "type": "quantitative", "title": title, "axis": dict(axis)}
    return along | ({"scale": dict(scale)} if scale else {})


def difference_axis(ticks: int) -> dict[str, Any]:
    """An axis of differences of shares, in points, with their sign."""
    labels = "format(100 * datum.value, datum.value ? '+~r' : 'd')"
    return {"labelExpr": labels, "grid": True, "tickCount": ticks}


def difference_x(field: str, title: str, ticks: int) -> dict[str, Any]:
    """A difference of shares on the horizontal axis, in points, with its sign."""
    return quantity(field, f"{title} (points)", difference_axis(ticks))


def value_x(field: str, whole: bool = False) -> dict[str, Any]:
    """A measure on the horizontal axis, named by its panel. `whole`: from 0 to 1."""
    scale: Spec = {"domain": [0, 1]} if whole else {"zero": False}
    axis = {"tickCount": 5, "grid": True}
    return quantity(field, None, axis, scale)


def popularity_x(field: str = "popularity", title: Any = POPULARITY) -> dict[str, Any]:
    """Popularity on a logarithmic axis, marked at powers of ten only."""
    return quantity(
        field,
        title,
        {"format": "~s", "values": _POWERS, "labelOverlap": True},
        {"type": "log", "nice": False, "padding": 6},
    )


def share_y(field: str, title: str, whole: bool = True) -> dict[str, Any]:
    """A share from 0 to 1 on the vertical axis, in per cent."""
    scale: Spec = {"domain": [0, 1]} if whole else {"zero": False}
    return quantity(field, title, SHARE_AXIS, scale)


def series(field: str, title: str | None = None, of: str | None = None) -> dict[str, Any]:
    """A colour per value of a column; models have ordered colours, by size.

    `of`: the column whose values in the study decide the order of the colours.
    """
    return {
        "field": field,
        "type": "nominal",
        "title": title,
        "scale": {"domain": {"$all": of or field}}
        | ({"range": {"$spread": field, "over": STEPS}} if field == "model" else {}),
        "legend": {"values": {"$present": field}},
    }


ACCURACY_Y = share_y("accuracy", "accuracy")
METHODS = series("method", "method")
MODELS = series("model", "model")


def categories(
    field: str, title: str | None, values: Sequence[str], *, is_ordered: bool = False
) -> dict[str, Any]:
    """A colour per named value of a column; of an ordered one, colours in steps."""
    steps = {"range": spread(STEPS, len(values))} if is_ordered else {}
    return {"field": field, "type": "nominal", "title": title, "scale": {"domain": list(values), **steps}}


def curves(
    x: Spec,
    y: Spec,
    colour: Spec,
    *,
    interval: tuple[str, str] | None = bounds(),
    few: bool = False,
    mark_at: float | None = None,
) -> dict[str, Any]:
    """Lines with points and a band over `interval`, if there is one; a click in the legend keeps one line bright.

    With `few` points, each has its interval as a bar too, since a line of one point has no band. `mark_at`: a dashed
    line at this value.
    """
    dim = {"condition": {"param": "kept", "value": 1}, "value": 0.12}
    kept = {"name": "kept", "select": {"type": "point", "fields": [colour["field"]]}, "bind": "legend"}
    layers = _marks_at(mark_at, "y")
    if interval:
        ends = {"y": {**y, "field": interval[0]}, "y2": {"field": interval[1]}}
        band = {"condition": {"param": "kept", "value": 0.14}, "value": 0.02}
        layers.append({"mark": {"type": "area", "line": False}, "encoding": {**ends, "opacity": band}})
        if few:
            bar = {"type": "rule", "strokeWidth": 1.5}
            layers.append({"mark": bar, "encoding": {**ends, "opacity": dim}})
    line = {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {"y": dict(y), "opacity": dim}}
    # Beside a selection, only a mark with a hint of its own takes the pointer.
    mark = {"type": "point", "filled": True, "size": 38, "opacity": 1, "tooltip": "row"}
    dots = {"mark": mark, "encoding": {"y": dict(y), "opacity": dim, "shape": shape(colour)}}
    return {
        "encoding": {"x": dict(x), "color": dict(colour)},
        "layer": [*layers, {"params": [kept], **line}, dots],
    }


def shape(colour: Spec) -> dict[str, Any]:
    """A shape per value as well, so that series do not differ by colour alone. Both share one legend."""
    return {**colour, "scale": {"domain": colour["scale"]["domain"]}}


def points(
    x: Spec,
    y: Spec,
    colour: Spec,
    *,
    interval: tuple[str, str] = bounds(),
    side_by_side: bool = False,
    size: int = 70,
    mark_at: float | None = None,
) -> dict[str, Any]:
    """Points with an interval along `y` if that is quantitative, else `x`. `mark_at`: a dashed line at this value.

    `side_by_side`: those of different colours have places of their own.
    """
    low, high = interval
    lengthwise = y.get("type") != "quantitative"
    value, end = ("x", "x2") if lengthwise else ("y", "y2")
    encoding: dict[str, Any] = {"x": dict(x), "y": dict(y), "color": dict(colour)}
    measured = encoding.pop(value)
    if side_by_side:
        order = colour["scale"]["domain"]
        places = order if isinstance(order, list) else {"$present": colour["field"]}
        offset = {"field": colour["field"], "type": "nominal", "scale": {"domain": places}}
        encoding["yOffset" if lengthwise else "xOffset"] = offset
    return {
        "encoding": encoding,
        "layer": [
            *_marks_at(mark_at, value),
            {
                "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.55},
                "encoding": {value: {**measured, "field": low}, end: {"field": high}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": size, "opacity": 1},
                "encoding": {value: measured, "shape": shape(colour)},
            },
        ],
    }


def _marks_at(at: float | None, along: str) -> list[dict[str, Any]]:
    """A layer with a dashed line where axis `along` (x or y) has the value `at`, or no layer."""
    line = {
        "mark": {"type": "rule", "strokeDash": [4, 3]},
        "encoding": {along: {"datum": at}, **_NOWHERE[along]},
    }
    return [] if at is None else [line]


def names(field: str, **axis: Any) -> dict[str, Any]:
    """The values of a text column along an axis, in the study's order."""
    return {
        "field": field,
        "type": "nominal",
        "title": None,
        "scale": {"domain": {"$present": field}},
        "axis": {"labelAngle": 0, **axis},
    }


def cells(
    x: Spec,
    y: Spec,
    value: str,
    *,
    scale: Mapping[str, Any] = SHARES,
    text: str = ".2f",
    title: str | None = None,
    shown: str | None = None,
) -> dict[str, Any]:
    """Coloured cells with their number; grey without a number. Black or white text: which has the greater contrast.

    `shown`: a column with the text of the cell, instead of the number.
    """
    ground = f"scale('color', datum['{value}'])"
    is_dark = f"contrast({ground}, '#ffffff') > contrast({ground}, '#000000')"
    written = {"field": shown} if shown else {"field": value, "format": text}
    known = f"isValid(datum['{value}'])"
    return {
        "encoding": {"x": dict(x), "y": dict(y)},
        "layer": [
            {
                "mark": {"type": "rect", "cornerRadius": 2, "stroke": "var(--surface)", "strokeWidth": 1.5},
                "encoding": {
                    "color": {
                        "condition": {
                            "test": known,
                            "field": value,
                            "type": "quantitative",
                            "title": title,
                            "scale": dict(scale),
                            "legend": {"gradientLength": 160, "format": "~g"},
                        },
                        "value": "var(--grid)",
                    }
                },
            },
            {
                "mark": {"type": "text", "fontSize": 10.5},
                "encoding": {
                    "text": {"condition": {"test": known, **written}, "value": "–"},
                    "color": {
                        "condition": [
                            {"test": f"!{known}", "value": "var(--muted)"},
                            {"test": is_dark, "value": "#ffffff"},
                        ],
                        "value": "#000000",
                    },
                },
            },
        ],
    }


def panels(
    by: str,
    inner: Mapping[str, Any],
    *,
    least: int = 220,
    ratio: float = 0.72,
    rows: str | None = None,
    lanes: str | None = None,
    step: int = 22,
) -> Spec:
    """`inner` once per value of column `by`, with as many panels side by side as fit at `least` pixels each.

    A panel's height is `ratio` of its width, or `step` pixels for each value of column `rows`, and more where column
    `lanes` has many values, which stand below one another in a row.
    """
    shape_of = {"by": by, "least": least, "ratio": ratio, "rows": rows, "lanes": lanes, "step": step}
    return {
        "usermeta": {"panels": shape_of},
        "facet": {
            "field": by,
            "type": "nominal",
            "sort": {"field": PANEL, "op": "min"},
            "header": {"title": None},
        },
        "spec": dict(inner),
    }


def points_in_rows(
    by: str,
    x: Spec,
    rows: str,
    colour: Spec,
    *,
    least: int,
    lanes: str | None = None,
    step: int = 22,
    **look: Any,
) -> Spec:
    """One panel per value of column `by`: points along `x`, a row for each value of column `rows`.

    `look`: that of `points`; the rest as in `panels`.
    """
    return panels(by, points(x, names(rows), colour, **look), least=least, rows=rows, lanes=lanes, step=step)


def curves_in_panels(
    by: str, x: Spec, y: Spec, colour: Spec, *, least: int, ratio: float = 0.72, **look: Any
) -> Spec:
    """One panel per value of column `by`: curves of y along x, one for each colour; `look`: that of `curves`."""
    return panels(by, curves(x, y, colour, **look), least=least, ratio=ratio)


IN_LINES = "split(datum.label, '\\n')"
"""The expression of a label with line breaks."""


def each_model_and_dataset(inner: Mapping[str, Any], *, least: int) -> Spec:
    """One panel per value of column `system`, a model and its data set; each has its own axis of popularity."""
    drawn = panels("system", inner, least=least)
    header = {**drawn["facet"]["header"], "labelExpr": IN_LINES}
    return {
        **drawn,
        "facet": {**drawn["facet"], "header": header},
        "resolve": {"scale": {"x": "independent"}},
    }


def relation_cells(by: str, value: str, title: str, **look: Any) -> Spec:
    """One panel per value of column `by`: coloured cells by relation and model; `look`: that of `cells`."""
    x = names("model", labelAngle=-35, labelAlign="right")
    drawn = cells(x, names("relation"), value, title=title, **look)
    return panels(by, drawn, least=190, rows="relation")


def relation_dots(by: str, x: Spec, least: int) -> Spec:
    """One panel per value of column `by`: a point per relation and model, without an interval."""
    models = series("model", "model")
    y = {**names("relation"), "axis": {"grid": True}}
    drawn = {
        "mark": {"type": "point", "filled": True, "size": 60, "opacity": 0.9},
        "encoding": {"x": dict(x), "y": y, "color": models, "shape": shape(models)},
    }
    return panels(by, drawn, least=least, rows="relation")


def single(inner: Mapping[str, Any], *, height: int = 320, rows: str | None = None, step: int = 30) -> Spec:
    """One chart as wide as the page, `height` pixels high or `step` pixels for each value of column `rows`."""
    return {"usermeta": {"single": {"height": height, "rows": rows, "step": step}}, **inner}


def rows_of_points(x: Spec, rows: str, colour: Spec, *, step: int, **look: Any) -> Spec:
    """One chart as wide as the page: points along `x`, a row of `step` pixels for each value of column `rows`.

    `look`: that of `points`.
    """
    labels = names(rows, labelExpr=IN_LINES, labelLineHeight=12)
    return single(points(x, labels, colour, **look), rows=rows, step=step)
