"""From a chart's definition and its rows to a specification that Vega-Lite draws.

`page/chart.js` does the same in the browser, for the reader's selection. A test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longtail.report.figure import PANEL, Spec

_GAP = 22
_WIDEST_PANEL = 430
_WIDEST = 1200
_UNNAMED = 15
_SYMBOL = 46
_AXIS = 34
_LETTER = 7
_LONGEST_LABEL = 190
_LONGEST_ENTRY = 260
_LANE = 9

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Dimensions:
    """The order of datasets, prompts, models and methods in the study, and words that depend on it."""

    order: Mapping[str, Sequence[str]]
    labels: Mapping[str, str]


ROLES = {
    "dataset": "dataset",
    "prompt": "prompt",
    "model": "model",
    "model_a": "model",
    "model_b": "model",
    "within": "model",
    "method": "method",
    "method_a": "method",
    "method_b": "method",
    "retrieval_method": "method",
    "parametric_method": "method",
    "retriever": "method",
    "relation": "relation",
}
"""The dimension of a column, by its name: its values have the order of that dimension."""


def present(rows: Sequence[Row], name: str, dimensions: Dimensions) -> list[Any]:
    """The distinct values of a column, in the order of its dimension. Values that it does not have come last."""
    seen = dict.fromkeys(row[name] for row in rows if row[name] is not None)
    order = dimensions.order.get(ROLES.get(name, name), ())
    return [*(value for value in order if value in seen), *(value for value in seen if value not in order)]


def resolve(spec: Any, rows: Sequence[Row], dimensions: Dimensions) -> Any:
    """`spec` with its placeholders filled in for `rows`."""
    if isinstance(spec, Mapping):
        if "$present" in spec:
            return present(rows, spec["$present"], dimensions)
        if "$all" in spec:
            name = str(spec["$all"])
            return list(dimensions.order.get(ROLES.get(name, name), ())) or present(rows, name, dimensions)
        if "$spread" in spec:
            return spread(spec["over"], len(resolve({"$all": spec["$spread"]}, rows, dimensions)))
        if "$label" in spec:
            return dimensions.labels[spec["$label"]]
        return {key: resolve(value, rows, dimensions) for key, value in spec.items()}
    if isinstance(spec, (list, tuple)):
        return [resolve(value, rows, dimensions) for value in spec]
    return spec


def spread(steps: Sequence[str], n: int) -> list[str]:
    """`n` of the ordered colours `steps`, from the first to the last."""
    return [steps[at * (len(steps) - 1) // max(n - 1, 1)] for at in range(n)]


def worded(text: str, dimensions: Dimensions) -> str:
    """A caption with the words that depend on the study: `{popularity}` becomes the measure."""
    for name, label in dimensions.labels.items():
        text = text.replace(f"{{{name}}}", label)
    return text


def placed(spec: Spec, rows: Sequence[Row], dimensions: Dimensions) -> list[dict[str, Any]]:
    """The rows for the chart. If it has panels, each row has the position of its panel."""
    by = spec["usermeta"].get("panels", {}).get("by")
    if by is None:
        return [dict(row) for row in rows]
    place = {value: at for at, value in enumerate(present(rows, by, dimensions))}
    return [{**row, PANEL: place.get(row[by], len(place))} for row in rows]


def fitted(spec: Spec, rows: Sequence[Row], width: int) -> dict[str, Any]:
    """A resolved `spec` laid out for `width` pixels, by its `usermeta`."""
    meta = spec["usermeta"]
    sized = {key: value for key, value in spec.items() if key != "usermeta"}
    width = min(width, _WIDEST)
    shape = meta.get("panels") or meta["single"]
    label = min(_LONGEST_LABEL, width // 3)
    room = width - _axis(shape, rows, label)
    entries = _entries(sized)
    longest = max((len(str(entry)) for entry in entries), default=_UNNAMED)
    legend_columns = max(1, min(room // (_SYMBOL + _LETTER * longest), len(entries) or _WIDEST))
    legend = {"columns": legend_columns, "labelLimit": min(_LONGEST_ENTRY, room // legend_columns - _SYMBOL)}
    config = {"legend": legend, "axisY": {"labelLimit": label}}
    if "single" in meta:
        size = {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
        return {**sized, **size, "height": _height(shape, rows, shape["height"]), "config": config}
    count = max(1, len({row[shape["by"]] for row in rows}))
    columns = min(count, max(1, (room + _GAP) // (shape["least"] + _GAP)))
    columns = -(-count // -(-count // columns))  # as many in each row, so that no cell is empty without need
    panel = min(_WIDEST_PANEL, (room - _GAP * (columns - 1)) // columns)
    facet = {**sized["facet"], "header": {**sized["facet"]["header"], "labelLimit": panel}}
    inner = {**sized["spec"], "width": panel, "height": _height(shape, rows, int(panel * shape["ratio"]))}
    return {
        **sized,
        "facet": facet,
        "columns": columns,
        "spec": inner,
        "config": config,
    }


def _entries(spec: Any) -> Sequence[Any]:
    """The entries of the first legend of colours that names its values."""
    if isinstance(spec, Mapping):
        colour = spec.get("color")
        if isinstance(colour, Mapping) and "scale" in colour:
            named = (colour.get("legend") or {}).get("values") or colour["scale"].get("domain")
            return named if named and colour["type"] != "quantitative" else ()
        spec = list(spec.values())
    return next(filter(None, map(_entries, spec)), ()) if isinstance(spec, (list, tuple)) else ()


def _axis(shape: Mapping[str, Any], rows: Sequence[Row], label: int) -> int:
    """Pixels of the vertical axis. If it shows the values of a column, its longest label decides, up to `label`."""
    if not shape["rows"]:
        return int(shape["axis"])
    longest = max(len(str(row[shape["rows"]] or "")) for row in rows)
    return _AXIS + min(label, _LETTER * longest)


def _height(shape: Mapping[str, Any], rows: Sequence[Row], otherwise: int) -> int:
    if not shape["rows"]:
        return otherwise
    lanes = len({row[shape["lanes"]] for row in rows}) if shape.get("lanes") else 0
    return max(int(shape["step"]), _LANE * (lanes + 1)) * max(1, len({row[shape["rows"]] for row in rows}))
