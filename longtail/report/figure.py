"""A figure of the report: a query on the published marts, a chart, a table, and words; how its chart is drawn.

A chart is a Vega-Lite specification without data. It has five placeholders for values that are known only with the
rows. `resolve` fills them in for pictures, `page/chart.js` in the browser, by the same rules (a test compares the two):

    {"$present": "model"}   the values of a column in the shown rows, in the order of the study
    {"$all": "method"}      the values of a column in the whole study, so that colours do not change with the selection
    {"$spread": "model"}    ordered colours (`over`), one for each of these values
    {"$label": "popularity"}  a word that depends on the study
    usermeta.panels         how a faceted chart fits into a width (see `fit`)

Colours are CSS variables, so that a page can change its theme or be printed without drawing again. Pictures use the
light theme. The series differ in lightness as well as in hue. They follow Okabe and Ito's set, made darker (or lighter)
until each has a contrast of at least 3:1 with the page. A test measures it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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

    `kind`: text, count (1,234), share (0.123), number (4 digits), signed (+0.123), points (a verdict in words, with the
    bounds of a difference of shares in points: +1.2), usd (two digits that count), flag (yes, no), p (p value).
    `interval`: the two columns with the bounds that are shown beside the value.
    """

    name: str
    label: str
    kind: str = "text"
    interval: tuple[str, str] | None = None


_CHART_ONLY = frozenset((
    "place", "system", "popularity", "z", "shown", "kind", "significance", "answered_by", "is_cut", "span_starts",
    "span_ends", "passage", "passage_source", "passage_licence", "decade_low",
))  # fmt: skip
"""Names of columns that a query has for its chart or cards alone."""
_KINDS = (
    ("number", r".*_ms(_.*)?"),
    ("p", r".*p_(value|holm)"),
    ("usd", r".*usd.*|amount|saved"),
    ("count", r".*_tokens_per_1000"),
    ("signed", r".*(gain|difference|correlation|pearson|biserial|spearman|kappa|gap_share).*"),
    ("share", r".*(accuracy|share|recall|coverage|auroc|cosine|precision|risk|area|agreement|probability|quip).*"),
    ("share", r"scons|cert|similarity|value|(mean|base)_(value|score)"),
)  # fmt: skip
"""What a fractional number is, by its column's name; else it is a number."""
_COUNTS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT")
_LABELS = {
    "bin_low": "popularity from", "bin_high": "popularity to", "popularity_low": "popularity from",
    "popularity_high": "to", "z_low": "z from", "z_high": "z to", "subject_popularity": "popularity",
    "threshold_popularity": "threshold", "threshold_scope": "threshold", "parametric_method": "memory",
    "parametric_accuracy": "from memory", "parametric_prediction": "from memory",
    "retrieval_accuracy": "with retrieval", "retrieval_prediction": "with the passage",
    "passage_of": "passage is about", "passage_title": "passage", "recall_at_1": "recall@1", "recall_at_5": "recall@5",
    "n_questions": "n", "n_compared": "n", "n_correct": "right", "n_reused": "n reused", "n_timed": "n timed",
    "n_above_zero": "n above zero", "n_scons": "n of consistency", "n_cert": "n of certainty",
    "n_a_only": "only A right", "n_b_only": "only B right", "n_paired": "pairs", "n_scores_paired": "pairs",
    "n_quip": "texts with QUIP", "n_grams": "runs of 25 characters", "n_quotes": "quotations",
    "n_missing_popularity": "without popularity", "n_questions_without_subject": "without subject",
    "n_questions_without_relation": "without relation", "n_known": "questions whose passages are known",
    "n_put_aside": "quarantined", "n_several_entities": "several", "n_most_popular": "by popularity",
    "n_rule_only": "right by the rule alone", "n_verdict_only": "right by the verdict alone",
    "n_expected": "asked for", "n_separated": "separated relations", "is_best": "kept", "is_interleaved": "in turn",
    "is_correct": "popqa", "is_correct_case_sensitive": "case-sensitive", "is_correct_normalized": "normalised",
    "no_interval": "why no interval", "gain_ci_undefined": "why no interval", "undefined": "why undefined",
    "pearson_binned": "Pearson, bins", "pearson_binned_undefined": "why no Pearson, bins",
    "point_biserial": "point-biserial", "spearman": "Spearman",
    "unbinned_undefined": "why no point-biserial, Spearman", "accuracy_attempted": "accuracy of the rest",
    "accuracy_by_rule": "accuracy by the rule", "accuracy_by_verdict": "by the verdicts", "auroc": "AUROC",
    "auroc_within": "within relations", "brier": "Brier score", "p_value": "p", "p_holm": "p after Holm",
    "score_p_value": "p", "score_p_holm": "p after Holm", "score_difference": "difference",
    "gap_share": "part of the way", "gain_over_popularity_all": "over popularity",
    "gain_over_popularity_per_relation": "over popularity per relation",
    "coverage_at_risk_5": "coverage at 5 %, in sample", "coverage_at_risk_10": "coverage at 10 %, in sample",
    "coverage_at_risk_20": "coverage at 20 %, in sample", "excess_area": "above the best order",
    "threshold": "signal above", "variant": "thresholds",
    "cost_usd_per_1000": "USD per 1,000", "device_seconds_per_1000": "device s per 1,000",
    "signal_device_seconds_per_1000": "signal's s per 1,000", "single_latency_ms": "median ms",
    "single_latency_ms_never": "never, ms",
    "single_latency_ms_always": "always, ms", "single_latency_ms_adaptive": "adaptive, ms",
    "single_latency_ms_saved": "saved, ms", "p95_ms": "95th percentile", "device_seconds": "device s spent",
    "amount": "USD per 1,000 questions", "saved": "saving claimed", "share_memory": "keeps memory",
    "share_passage": "follows", "share_other": "says something else", "share_of_prompt_tokens_shared": "shared",
    "share_failed": "share", "cumulative_share": "up to here", "scons": "consistency", "cert": "certainty",
    "aic": "AIC", "mcfadden_r2": "McFadden's R²", "mean_probability": "predicted", "bin_center": "value",
    "loss": "loss of the reader", "retriever_loss": "loss of the retriever", "reader_rate": "rate of the reader",
    "retriever_rate": "rate of the retriever", "batch_size": "queries of a step", "passages_per_query": "passages",
    "training_relations": "trained on", "text_from": "kind of text", "quip": "mean QUIP",
    "base_value": "QUIP of the others", "mean_value": "mean QUIP", "length": "compared over", "end_task": "score",
    "level": "log10 popularity", "pair": "A − B", "p25": "25 %", "p75": "75 %", "p95": "95 %",
    "least_cosine": "lowest", "minimum": "lowest", "maximum": "highest", "table_name": "lake table",
    "example_row_key": "for example", "kappa": "κ",
}  # fmt: skip
"""Labels of columns, where their names do not say it."""
_UNSAID = re.compile(r"^(n|is|share|accuracy)_|_(accuracy|method)$")


def columns_of(
    names: Sequence[str], types: Sequence[str], labels: Mapping[str, str], hidden: Sequence[str]
) -> tuple[Column, ...]:
    """The columns of a table from the names and DuckDB's types of a query's columns.

    The bounds of an interval follow its value in the query: `…ci_low` and `…ci_high`, `split_low` and `split_high`, or
    the value's name with `_low` and `_high`. `labels` and `hidden`: those of the figure.
    """
    columns, bounds_of = [], set[str]()
    for at, (name, type_) in enumerate(zip(names, types, strict=True)):
        low, high = (*names[at + 1 : at + 3], "", "")[:2]
        is_interval = low.endswith(("ci_low", "split_low")) or (low, high) == (f"{name}_low", f"{name}_high")
        ends = (low, high) if is_interval else None
        bounds_of.update(ends or ())
        if name not in bounds_of and name not in _CHART_ONLY and name not in hidden:
            label = labels.get(name) or _LABELS.get(name) or _default_label(name)
            columns.append(Column(name, label, _kind(name, type_, ends is not None), ends))
    return tuple(columns)


def _default_label(name: str) -> str:
    side = name[-2:] if name.endswith(("_a", "_b")) else ""  # of a comparison
    said = _UNSAID.sub("", name.removesuffix(side)).replace("_", " ").replace(" per 1000", " per 1,000")
    return said + side.replace("_", " ").upper()


def _kind(name: str, type_: str, has_interval: bool) -> str:
    if type_ == "BOOLEAN":
        return "flag"
    if type_ in _COUNTS:
        return "count"
    if type_ != "DOUBLE":
        return "points" if has_interval else "text"
    return next((kind for kind, pattern in _KINDS if re.fullmatch(pattern, name)), "number")


@dataclass(frozen=True)
class Figure:
    """One figure. If a table of its query is missing, or `mart` is empty, the figure is not shown.

    `shows`: the caption, in sentences: what is drawn, what the interval is, what was left out. `{popularity}` in it
    stands for the study's measure, like `$label` in a chart.
    `source`: the place in the paper.
    `sql`: the first table that it reads is the `mart` whose numbers the figure shows. Its columns are those of the table
    behind the figure, but for what only charts read and the names in `hidden`.
    `labels`: what this figure calls some of them.
    `spec`: the chart; a figure without one is a table, or `cards`: examples (cards of text), or quotes (texts with
    marked places). `choose`: columns of which one value is shown at a time.
    `leads_to_answers`: a row counts exactly the answers that `page/links.js` finds by its columns.
    """

    key: str
    title: str
    shows: str
    source: str
    sql: str
    spec: Spec | None = None
    choose: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    cards: str | None = None
    leads_to_answers: bool = False

    @property
    def kind(self) -> str:
        """chart, table, examples or quotes."""
        return "chart" if self.spec else self.cards or "table"

    @property
    def mart(self) -> str:
        """The table whose numbers it shows; Dagster shows its picture there."""
        return _MART.findall(self.sql)[0]

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables of schema `marts` that the query reads."""
        return tuple(dict.fromkeys(_TABLE.findall(self.sql)))


@dataclass(frozen=True)
class Section:
    """A part of the report. The first one opens the page without title and lead.

    A chapter can be folded. It is open at first if it `has_results` and one of its `figures` has rows.
    """

    key: str
    title: str
    lead: str
    figures: tuple[Figure, ...]
    is_chapter: bool = True
    has_results: bool = False


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
_TABLE = re.compile(r"\bmarts\.(\w+)")
_MART = re.compile(r"\bfrom marts\.(\w+)\b(?!\))")
"""The first table of a query that is not the whole of a subquery, such as whether a study has several data sets."""
_VARIABLE = re.compile(r"var\(--([a-z0-9-]+)\)")
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Liberation Sans', sans-serif"
PICTURE_FONT = "Liberation Sans, DejaVu Sans, Arial, sans-serif"


def variables(theme: str) -> str:
    """The declarations of a theme, `light` or `dark`, for a CSS rule."""
    return "".join(f"--{name}:{pair[theme == 'dark']};" for name, pair in _TOKENS.items())


def colours(theme: str) -> dict[str, str]:
    """Colour by token of a theme, `light` or `dark`."""
    return {name: pair[theme == "dark"] for name, pair in _TOKENS.items()}


def paint(value: Any) -> Any:
    """`value` (any JSON) with the light theme's colours in place of CSS variables."""
    if isinstance(value, dict):
        return {key: paint(item) for key, item in value.items()}
    if isinstance(value, list):
        return [paint(item) for item in value]
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
        "range": {"category": [f"var(--series-{n})" for n in range(1, _SERIES + 1)], "symbol": _SYMBOLS},
    }


_GAP = 22
_WIDEST_PANEL = 430
_WIDEST = 1200
_UNNAMED = 15
_SYMBOL = 46
_AXIS = 34
_AXIS_OF_NUMBERS = 84
_LETTER = 7
_LONGEST_LABEL = 190
_LONGEST_ENTRY = 260
_LANE = 9

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Dimensions:
    """The order of datasets, prompts, models and methods in the study, and words that depend on it.

    `named`: by dataset, what its popularity counts, where the study says it.
    """

    order: Mapping[str, Sequence[str]]
    labels: Mapping[str, str]
    named: Mapping[str, str] = field(default_factory=dict)

    def label(self, name: str, rows: Sequence[Row]) -> str:
        """A word for rows of one dataset."""
        measure = self.named.get(rows[0].get("dataset", "")) if rows else None
        return (
            self.labels[name]
            if measure is None
            else {"threshold": f"threshold: {measure}"}.get(name, measure)
        )


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
            return dimensions.label(spec["$label"], rows)
        return {key: resolve(value, rows, dimensions) for key, value in spec.items()}
    if isinstance(spec, (list, tuple)):
        return [resolve(value, rows, dimensions) for value in spec]
    return spec


def spread(steps: Sequence[str], n: int) -> list[str]:
    """`n` of the ordered colours `steps`, from the first to the last."""
    return [steps[at * (len(steps) - 1) // max(n - 1, 1)] for at in range(n)]


def fill_words(text: str, dimensions: Dimensions) -> str:
    """A caption with the words that depend on the study: `{popularity}` becomes the measure."""
    for name, label in dimensions.labels.items():
        text = text.replace(f"{{{name}}}", label)
    return text


def place_rows(spec: Spec, rows: Sequence[Row], dimensions: Dimensions) -> list[dict[str, Any]]:
    """The rows for the chart. If it has panels, each row has the position of its panel."""
    by = spec["usermeta"].get("panels", {}).get("by")
    if by is None:
        return [dict(row) for row in rows]
    place = {value: at for at, value in enumerate(present(rows, by, dimensions))}
    return [{**row, PANEL: place.get(row[by], len(place))} for row in rows]


def fit(spec: Spec, rows: Sequence[Row], width: int) -> dict[str, Any]:
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
    return {**sized, "facet": facet, "columns": columns, "spec": inner, "config": config}


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
        return _AXIS_OF_NUMBERS
    longest = max(len(str(row[shape["rows"]] or "")) for row in rows)
    return _AXIS + min(label, _LETTER * longest)


def _height(shape: Mapping[str, Any], rows: Sequence[Row], otherwise: int) -> int:
    if not shape["rows"]:
        return otherwise
    lanes = len({row[shape["lanes"]] for row in rows}) if shape.get("lanes") else 0
    return max(int(shape["step"]), _LANE * (lanes + 1)) * max(1, len({row[shape["rows"]] for row in rows}))
