"""The colours of the report, for light and dark, and the look of its charts.

Colours are CSS variables, so that a page can change its theme or be printed without drawing again. Pictures use the
light theme.

The series differ in lightness as well as in hue. They follow Okabe and Ito's set, made darker (or lighter) until each
has a contrast of at least 3:1 with the page. A test measures it.
"""

from __future__ import annotations

import re
from typing import Any

_TOKENS = {  # name: (light, dark)
    "page": ("#f7f7f4", "#111418"),
    "surface": ("#ffffff", "#191d22"),
    "raised": ("#f1f2ee", "#22272e"),
    "ink": ("#1a1d21", "#e9ecef"),
    "muted": ("#555c65", "#a7b0ba"),
    "rule": ("#d9dbd5", "#343a42"),
    "grid": ("#ecede9", "#2a2f36"),
    "accent": ("#075a8c", "#74bdf0"),
    "accent-ink": ("#ffffff", "#0d1116"),
    "warn": ("#7a4b00", "#f2c14e"),
    "warn-page": ("#fff4d6", "#33290f"),
    "series-1": ("#0067a5", "#56b0ea"),
    "series-2": ("#b94a17", "#f28a55"),
    "series-3": ("#007a5a", "#3ecb9f"),
    "series-4": ("#9c4a86", "#e097ca"),
    "series-5": ("#8f6400", "#e3b341"),
    "series-6": ("#2b8cae", "#a5d8f3"),
    "series-7": ("#5f646b", "#b1b8c0"),
    "series-8": ("#6b3410", "#cf9f83"),
    "series-9": ("#4b4fb0", "#a9acf7"),
    "series-10": ("#5a7a00", "#b4d455"),
    "step-1": ("#bb881a", "#875ca5"),  # steps differ evenly in lightness, so that their order can be seen
    "step-2": ("#81870e", "#7579c9"),
    "step-3": ("#33823c", "#5698da"),
    "step-4": ("#00745e", "#30b6d9"),
    "step-5": ("#005d75", "#3ecfc8"),
    "step-6": ("#003f7b", "#7de1ae"),
    "step-7": ("#221f6d", "#c1ec96"),
    "step-8": ("#32004b", "#fff18f"),
}
_SERIES = 10
_STAR = "M0,-1L.22,-.31L.95,-.31L.36,.12L.59,.81L0,.38L-.59,.81L-.36,.12L-.95,-.31L-.22,-.31Z"
_HOURGLASS = "M-.8,-.8H.8L-.8,.8H.8Z"
_SYMBOLS = [
    "circle", "square", "triangle-up", "cross", "diamond", "triangle-down", "triangle-right", "triangle-left", _STAR,
    _HOURGLASS,
]  # fmt: skip
STEPS = [f"var(--step-{n})" for n in range(1, 9)]
_VARIABLE = re.compile(r"var\(--([a-z0-9-]+)\)")
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Liberation Sans', sans-serif"
PICTURE_FONT = "Liberation Sans, DejaVu Sans, Arial, sans-serif"


def variables(theme: str) -> str:
    """The declarations of a theme, `light` or `dark`, for a CSS rule."""
    return "".join(f"--{name}:{pair[theme == 'dark']};" for name, pair in _TOKENS.items())


def colours(theme: str) -> dict[str, str]:
    """Colour by token of a theme, `light` or `dark`."""
    return {name: pair[theme == "dark"] for name, pair in _TOKENS.items()}


def painted(value: Any) -> Any:
    """`value` (any JSON) with the light theme's colours in place of CSS variables."""
    if isinstance(value, dict):
        return {key: painted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [painted(item) for item in value]
    return _VARIABLE.sub(lambda match: _TOKENS[match[1]][0], value) if isinstance(value, str) else value


def chart_config() -> dict[str, Any]:
    """Vega-Lite's `config` for all charts of the report."""
    ink, muted, rule = "var(--ink)", "var(--muted)", "var(--rule)"
    return {
        "background": "transparent",
        "font": FONT,
        "aria": False,  # the chart as a whole has a text, and its table the numbers
        "view": {"stroke": None},
        "mark": {"tooltip": "row"},  # `showHint` of page/chart.js tells it
        "axis": {
            "labelColor": muted,
            "titleColor": ink,
            "gridColor": "var(--grid)",
            "domainColor": rule,
            "tickColor": rule,
            "labelFontSize": 11,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "labelLimit": 150,
            "ticks": False,
            "labelPadding": 6,
        },
        "axisX": {"grid": False, "ticks": True, "tickSize": 4, "labelPadding": 3},
        "axisBand": {"ticks": False},
        "legend": {
            "orient": "top",
            "direction": "horizontal",
            "labelColor": ink,
            "titleColor": muted,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "symbolSize": 90,
            "symbolOpacity": 1,
            "labelLimit": 180,
            "columnPadding": 14,
            "offset": 10,
        },
        "header": {
            "labelColor": ink,
            "labelFontSize": 12,
            "labelFontWeight": 600,
            "labelAnchor": "start",
            "labelPadding": 6,
            "title": None,
            "labelLimit": 220,
        },
        "facet": {"spacing": {"row": 26, "column": 22}},
        "text": {"color": ink, "fontSize": 11},
        "rule": {"color": muted},
        "range": {
            "category": [f"var(--series-{n})" for n in range(1, _SERIES + 1)],
            "symbol": _SYMBOLS,
        },
    }
