"""What a figure of the report is: a query on the published marts, a chart, a table, and words.

What belongs here: the form of a definition. What does not: the definitions (`figures`), reading their rows (`rows`),
drawing them (`charts`, `pictures`, `page`).

A chart is a Vega-Lite specification without data, in which four placeholders stand for what is known only when rows
are at hand; `charts.resolve` fills them in for pictures, `page/chart.js` in the browser, by the same rules:

    {"$present": "model"}   the values of a column among the rows shown, in the order of the study
    {"$all": "method"}      the values of a column in the whole study: colours stay the same whatever is picked
    {"$label": "popularity"}  a word that depends on the study
    usermeta.panels         how a faceted chart fits into a width (see `charts.fitted`)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Spec = Mapping[str, Any]
PANEL = "panel_place"
"""A column that drawing adds to the rows: the place of a row's panel. A facet is ordered by it, never by a list of
labels, which Vega-Lite would write into an expression."""


@dataclass(frozen=True)
class Column:
    """A column of the table behind a figure.

    `kind`: text, count (1,234), share (0.123), number (4 digits), signed (+0.123), flag (yes, no), p (p value).
    `interval`: the two columns that hold the bounds shown beside the value.
    """

    name: str
    label: str
    kind: str = "text"
    interval: tuple[str, str] | None = None


@dataclass(frozen=True)
class Figure:
    """One figure. Its query reads `tables` of schema `marts`; where one is missing or empty, it is not shown.

    `shows`: the caption, in sentences: what is drawn, what the interval is, what was left out. `{popularity}` in it
    stands for the study's measure, as `$label` does in a chart.
    `source`: where the paper has it. `choose`: columns of which one value is shown at a time.
    `kind`: chart, table (no chart), or examples (cards of text).
    """

    key: str
    section: str
    title: str
    shows: str
    source: str
    tables: tuple[str, ...]
    sql: str
    columns: tuple[Column, ...]
    spec: Spec | None = None
    choose: tuple[str, ...] = ()
    kind: str = "chart"
    plot_on: str | None = None


@dataclass(frozen=True)
class Section:
    """A chapter of the report. The first one opens the page, and shows neither title nor lead."""

    key: str
    title: str
    lead: str
