"""Figures of the correlation of accuracy with popularity, by relation and within relations; and of its measures."""

from __future__ import annotations

from typing import Any

from longtail.report.figure import Column, Figure, bounds
from longtail.report.figures.memory import KEY, N
from longtail.report.marks import (
    fixed,
    names,
    panels,
    points,
    quantity,
    relation_cells,
    series,
)


def _correlation_x(field: str, title: str) -> dict[str, Any]:
    axis = {"format": ".2f", "grid": True, "tickCount": 6}
    return quantity(field, title, axis)


CORRELATION = Figure(
    key="correlation_by_relation",
    section="memory",
    title="How well popularity predicts accuracy",
    shows="Pearson correlation of the accuracy of a bin with its log popularity, over the bins with questions. A cell "
    "has at most ten points, so its correlation is easily near ±1, and it has no interval. The table also has the "
    "point-biserial and Spearman correlations over single questions, with bootstrap 95 % intervals; they are usually "
    "much smaller. A dash means "
    "undefined (under three bins, or no variance).",
    source="PopQA, Figures 4 (bottom), 17 and 19",
    tables=("fct_popularity_correlation",),
    sql="""select dataset, prompt, model, method, relation, n, n_missing_popularity, n_bins,
    pearson_binned, pearson_binned_undefined, point_biserial, point_biserial_ci_low, point_biserial_ci_high,
    spearman, spearman_ci_low, spearman_ci_high, unbinned_undefined
from marts.fct_popularity_correlation
order by dataset, prompt, model, method, relation""",
    columns=(
        *KEY,
        Column("relation", "relation"),
        N,
        Column("n_missing_popularity", "without popularity", "count"),
        Column("n_bins", "bins", "count"),
        Column("pearson_binned", "Pearson, bins", "signed"),
        Column("pearson_binned_undefined", "why no Pearson, bins"),
        Column("point_biserial", "point-biserial", "signed", bounds("point_biserial")),
        Column("spearman", "Spearman", "signed", bounds("spearman")),
        Column("unbinned_undefined", "why no point-biserial, Spearman"),
    ),
    spec=relation_cells(
        "method",
        "pearson_binned",
        "correlation",
        scale={"domain": [-1, 1], "domainMid": 0, "scheme": "purpleorange", "reverse": True},
        bright="datum['pearson_binned'] > 0.5 || datum['pearson_binned'] < -0.78",
        text="+.2f",
    ),
    plot_on="fct_popularity_correlation",
)

_SCOPES = ("over all answers", "within relations")
WITHIN = Figure(
    key="correlation_within_relations",
    section="memory",
    title="Popularity and accuracy, between and within relations",
    shows="Two correlations of correctness with popularity, over single questions. `over all answers` takes all "
    "questions together, so it also follows the difficulty of relations. If an easy relation has unpopular subjects, it "
    "falls; it can even be negative while popularity helps in every relation. `within relations` compares a question "
    "only with questions of its own relation: the mean of the relation is subtracted from correctness and from "
    "popularity (from its logarithm, or from its rank in the relation). Read `within relations` to learn whether "
    "popularity helps. Bars are bootstrap 95 % intervals (1,000 resamples of subjects). Questions without popularity, "
    "or with popularity zero, are left out; questions without a relation are left out of `within relations`.",
    source="SPEC §6, correlation; rank correlation within relations: Liu, Li, Wanga and Shepherd (2018)",
    tables=("fct_popularity_correlation",),
    sql=f"""with scopes as (select dataset, prompt, model, method, unnest([
    {{measure: 'point-biserial', scope: '{_SCOPES[0]}', n: n, correlation: point_biserial,
        ci_low: point_biserial_ci_low, ci_high: point_biserial_ci_high, undefined: no_interval}},
    {{measure: 'point-biserial', scope: '{_SCOPES[1]}', n: n_within, correlation: point_biserial_within,
        ci_low: point_biserial_within_ci_low, ci_high: point_biserial_within_ci_high, undefined: no_interval_within}},
    {{measure: 'Spearman', scope: '{_SCOPES[0]}', n: n, correlation: spearman,
        ci_low: spearman_ci_low, ci_high: spearman_ci_high, undefined: no_interval}},
    {{measure: 'Spearman', scope: '{_SCOPES[1]}', n: n_within, correlation: spearman_within,
        ci_low: spearman_within_ci_low, ci_high: spearman_within_ci_high, undefined: no_interval_within}}
], recursive := true)
from marts.fct_popularity_correlation
where relation = 'all')
select * from scopes
order by dataset, prompt, measure desc, model, method, scope""",  # noqa: S608
    columns=(
        *KEY,
        Column("measure", "measure"),
        Column("scope", "taken"),
        N,
        Column("correlation", "correlation", "signed", bounds()),
        Column("undefined", "why no interval"),
    ),
    spec=panels(
        "model",
        points(
            _correlation_x("correlation", "correlation"),
            names("method"),
            fixed("scope", "correlation", _SCOPES),
            offset="scope",
            zero=True,
        ),
        least=215,
        rows="method",
        step=44,
        axis=110,
    ),
    choose=("measure",),
    plot_on="fct_popularity_correlation",
)

MEASURES = Figure(
    key="popularity_measures",
    section="memory",
    title="Do the measures of popularity agree?",
    shows="Spearman's rank correlation of each two measures, over the questions that have both: the popularity that the "
    "study chose, the site links of the subject's item, and counts of subjects and answers in texts, if the study has "
    "any. Where measures rank subjects alike, it matters little which of them decides. Bars are 95 % intervals "
    "by Fisher's transformation, where questions on one subject count as one.",
    source="SPEC §11, counts in text; interval: Bonett and Wright (2000)",
    tables=("fct_popularity_measures",),
    sql="""select dataset, signal, other_signal, n, n_subjects, spearman, spearman_ci_low, spearman_ci_high
from marts.fct_popularity_measures
order by dataset, signal, other_signal""",
    columns=(
        Column("signal", "measure"),
        Column("other_signal", "other measure"),
        N,
        Column("n_subjects", "subjects", "count"),
        Column("spearman", "Spearman", "signed", bounds("spearman")),
    ),
    spec=panels(
        "other_signal",
        points(
            _correlation_x("spearman", "rank correlation"),
            names("signal"),
            series("signal"),
            interval=bounds("spearman"),
            zero=True,
        ),
        least=270,
        rows="signal",
        axis=140,
    ),
    plot_on="fct_popularity_measures",
)

FIGURES = (CORRELATION, WITHIN, MEASURES)
