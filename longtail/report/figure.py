"""A figure of the report: a query on the published marts, a chart, a table, and words.

A chart is a Vega-Lite specification without data. It has five placeholders for values that are known only with the
rows. `charts.resolve` fills them in for pictures, `page/chart.js` in the browser, by the same rules:

    {"$present": "model"}   the values of a column in the shown rows, in the order of the study
    {"$all": "method"}      the values of a column in the whole study, so that colours do not change with the selection
    {"$spread": "model"}    ordered colours (`over`), one for each of these values
    {"$label": "popularity"}  a word that depends on the study
    usermeta.panels         how a faceted chart fits into a width (see `charts.fitted`)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Spec = Mapping[str, Any]
PANEL = "panel_place"
"""A column that the drawing code adds to the rows: the position of a row's panel. It gives the order of the facets. A
list of labels would not do, because Vega-Lite would write it into an expression."""


def bounds(value: str | None = None) -> tuple[str, str]:
    """The columns of an interval: `ci_low` and `ci_high`, after the name of the value that it is of if that is given."""
    return (f"{value}_ci_low", f"{value}_ci_high") if value else ("ci_low", "ci_high")


@dataclass(frozen=True)
class Column:
    """A column of the table behind a figure.

    `kind`: text, count (1,234), share (0.123), number (4 digits), signed (+0.123), flag (yes, no), p (p value).
    `interval`: the two columns with the bounds that are shown beside the value.
    """

    name: str
    label: str
    kind: str = "text"
    interval: tuple[str, str] | None = None


@dataclass(frozen=True)
class Figure:
    """One figure. Its query reads `tables` of schema `marts`. If one is missing or empty, the figure is not shown.

    `shows`: the caption, in sentences: what is drawn, what the interval is, what was left out. `{popularity}` in it
    stands for the study's measure, like `$label` in a chart.
    `source`: the place in the paper. `choose`: columns of which one value is shown at a time.
    `kind`: chart, table (no chart), examples (cards of text), or quotes (texts with marked places).
    `leads_to_answers`: a row counts exactly the answers that `page/links.js` finds by its columns.
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
    leads_to_answers: bool = False


@dataclass(frozen=True)
class Section:
    """A part of the report. The first one opens the page without title and lead. A chapter opens on demand."""

    key: str
    title: str
    lead: str
    is_chapter: bool = True
