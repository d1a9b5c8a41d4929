"""Paired comparisons of methods and of models."""

from __future__ import annotations

from longtail.report.figure import Column, Figure, bounds
from longtail.report.figures.memory import KEY, N
from longtail.report.marks import difference_x, single

COMPARISON = Figure(
    key="paired_comparisons",
    section="scores",
    title="Methods and models, compared on the same questions",
    shows="Difference in accuracy between A and B on the questions that both answered, with a bootstrap 95 % interval "
    "(10,000 resamples of subjects). The p value is from random changes of the signs of whole subjects' differences, "
    "with Holm's adjustment within the dataset. Hollow points are not significant at 0.05 after the adjustment.",
    source="Longtail's own; compares the points of PopQA, Figure 7",
    tables=("fct_method_comparisons",),
    sql="""select dataset, prompt, comparison, if(comparison = 'methods', model_a, method_a) as within,
    model_a, method_a, model_b, method_b,
    if(comparison = 'methods', method_a || ' − ' || method_b, model_a || ' − ' || model_b) as pair,
    n, difference, ci_low, ci_high, n_a_only, n_b_only, p_value, p_holm, no_interval,
    coalesce(p_holm < 0.05, false) as is_significant
from marts.fct_method_comparisons
order by dataset, prompt, comparison, within, difference desc""",
    columns=(
        *KEY[:2],
        Column("comparison", "comparison of"),
        Column("within", "within"),
        Column("pair", "A − B"),
        N,
        Column("difference", "difference", "signed", bounds()),
        Column("n_a_only", "only A right", "count"),
        Column("n_b_only", "only B right", "count"),
        Column("p_value", "p", "p"),
        Column("p_holm", "p after Holm", "p"),
        Column("no_interval", "why no interval"),
    ),
    spec=single(
        {
            "encoding": {
                "y": {
                    "field": "pair",
                    "type": "nominal",
                    "title": None,
                    "sort": None,
                    "axis": {"labelLimit": 300},
                },
            },
            "layer": [
                {
                    "mark": {"type": "rule", "strokeDash": [3, 3]},
                    "encoding": {"x": {"datum": 0}, "y": None},
                },
                {
                    "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.55, "color": "var(--series-1)"},
                    "encoding": {
                        "x": difference_x("ci_low", "difference in accuracy, A − B", 8),
                        "x2": {"field": "ci_high"},
                    },
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1, "strokeWidth": 2},
                    "encoding": {
                        "x": {"field": "difference", "type": "quantitative"},
                        "fill": {
                            "condition": {"test": "datum.is_significant", "value": "var(--series-1)"},
                            "value": "var(--surface)",
                        },
                        "stroke": {"value": "var(--series-1)"},
                    },
                },
            ],
        },
        rows="pair",
        step=24,
    ),
    choose=("comparison", "within"),
    plot_on="fct_method_comparisons",
)

FIGURES = (COMPARISON,)
