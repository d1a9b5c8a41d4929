"""Figures of parametric memory: accuracy against popularity, relation and model size."""

from __future__ import annotations

from dagster_project.core.report.figure import Column, Figure, bounds
from dagster_project.core.report.marks import (
    curves,
    panels,
    popularity_x,
    relation_cells,
    series,
    share_y,
)

KEY = (
    Column("dataset", "dataset"),
    Column("prompt", "prompt"),
    Column("model", "model"),
    Column("method", "method"),
)
ACCURACY = Column("accuracy", "accuracy", "share", bounds())
N = Column("n", "n", "count")
BIN_EDGES = (
    Column("bin_low", "popularity from", "number"),
    Column("bin_high", "popularity to", "number"),
)
WILSON = "Bands and bars are Wilson 95 % intervals."
FEWEST = 40
"""The smallest number of questions of a drawn bin (SPEC §6). The next constant is for grids by relation and
level."""
FEWEST_BY_RELATION = 5

_CURVE = curves(
    popularity_x(),
    share_y("accuracy", "accuracy"),
    series("method", "method"),
)
_BIN_COLUMNS = (
    *BIN_EDGES,
    N,
    Column("n_correct", "right", "count"),
    ACCURACY,
)

BY_POPULARITY = Figure(
    key="accuracy_by_popularity",
    leads_to_answers=True,
    section="overview",
    title="Accuracy against popularity",
    shows="Share of right answers, from the least to the most popular subjects. Retrieval helps where a method with a "
    "passage is above memory alone, and hurts where it is below. Ten bins of equal width in log popularity; one "
    f"panel per model, smallest model first. {WILSON} Bins under {FEWEST} questions are left out.",
    source="PopQA, Figures 4 and 6",
    tables=("fct_accuracy_by_popularity",),
    sql=f"""select dataset, prompt, model, method, bin_low, bin_high, pow(10, bin_center_log10) as popularity,
    n, n_correct, accuracy, ci_low, ci_high
from marts.fct_accuracy_by_popularity
where relation = 'all' and n >= {FEWEST}
order by dataset, prompt, model, method, bin""",  # noqa: S608
    columns=(*KEY, *_BIN_COLUMNS),
    spec=panels("model", _CURVE, least=220),
    plot_on="fct_accuracy_by_popularity",
)

BY_POPULARITY_AND_RELATION = Figure(
    key="accuracy_by_popularity_and_relation",
    leads_to_answers=True,
    section="memory",
    title="Accuracy against popularity, by relation",
    shows=f"The curves at the top of the page, with one panel per relation; bins under {FEWEST_BY_RELATION} questions "
    f"are left out. {WILSON} With so few questions per bin the intervals are wide: read the direction of a curve, not "
    "its single points. Questions without a relation are left out.",
    source="PopQA, Figures 6, 20 and 21",
    tables=("fct_accuracy_by_popularity",),
    sql=f"""select dataset, prompt, model, method, relation, bin_low, bin_high,
    pow(10, bin_center_log10) as popularity, n, n_correct, accuracy, ci_low, ci_high
from marts.fct_accuracy_by_popularity
where relation <> 'all' and n >= {FEWEST_BY_RELATION}
order by dataset, prompt, model, relation, method, bin""",  # noqa: S608
    columns=(*KEY, Column("relation", "relation"), *_BIN_COLUMNS),
    spec=panels("relation", _CURVE, least=200, ratio=0.66),
    choose=("model",),
)

BY_RELATION = Figure(
    key="accuracy_by_relation",
    leads_to_answers=True,
    section="memory",
    title="Accuracy by relation",
    shows="Share of right answers by relation and model, with one panel per method. The table has n and the Wilson 95 "
    "% interval of every cell. Questions without a relation count under `all` alone.",
    source="PopQA, Figures 4 (right), 16 and 18",
    tables=("fct_accuracy",),
    sql="""select dataset, prompt, model, method, relation, n, n_correct, accuracy, ci_low, ci_high
from marts.fct_accuracy
order by dataset, prompt, model, method, relation""",
    columns=(*KEY, Column("relation", "relation"), N, Column("n_correct", "right", "count"), ACCURACY),
    spec=relation_cells("method", "accuracy", "accuracy"),
    plot_on="fct_accuracy",
)

FIGURES = (BY_RELATION, BY_POPULARITY_AND_RELATION)
