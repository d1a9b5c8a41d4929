"""Figures of adaptive retrieval: its accuracy, its gain, its thresholds, and how often it retrieves."""

from __future__ import annotations

from longtail.report.figure import Column, Figure, bounds
from longtail.report.figures.memory import N
from longtail.report.figures.retrieval import PAIR
from longtail.report.figures.signals import ARENA, QUALITY, RISK_COVERAGE, SIGNALS
from longtail.report.marks import (
    difference_x,
    fixed,
    names,
    panels,
    points,
    popularity_x,
    relation_cells,
    relation_dots,
    series,
    share_y,
    single,
)

_POLICIES = ["never", "always", "adaptive", "best of both"]
VARIANT = "if(threshold_scope = 'all', 'one threshold', 'per relation') || ', ' || search"
VARIANT_ORDER = "search <> 'exact', threshold_scope <> 'per_relation'"

ACCURACY = Figure(
    key="adaptive_accuracy",
    section="adaptive",
    title="Adaptive retrieval against always and never",
    shows="Accuracy on held-out questions, means over random splits (75 % fit the thresholds, 25 % are scored). `best "
    "of both` counts a question as right if one of the two answers is right: no policy can exceed it. The bar on "
    "`adaptive` spans the central 95 % of splits. It is their spread, not a confidence interval; the figure "
    "`What adaptive retrieval gains` has the interval of the gain.",
    source="PopQA, Figures 9 and 12",
    tables=("fct_adaptive_accuracy",),
    sql=f"""with policies as (
    unpivot (
        select *, accuracy_never as never, accuracy_always as "always", accuracy_adaptive as adaptive,
            accuracy_best_of_both as "best of both"
        from marts.fct_adaptive_accuracy
    ) on never, "always", adaptive, "best of both" into name policy value accuracy
)
select dataset, prompt, model, parametric_method, retrieval_method, {VARIANT} as variant, policy,
    n_questions, n_splits, accuracy,
    case when policy = 'adaptive' then split_low end as split_low,
    case when policy = 'adaptive' then split_high end as split_high,
    case when policy = 'adaptive' then share_retrieved end as share_retrieved
from policies
order by dataset, prompt, model, retrieval_method, {VARIANT_ORDER}, policy""",  # noqa: S608
    columns=(
        *PAIR,
        Column("variant", "thresholds"),
        Column("policy", "policy"),
        Column("n_questions", "n", "count"),
        Column("n_splits", "splits", "count"),
        Column("accuracy", "accuracy (spread of splits)", "share", ("split_low", "split_high")),
        Column("share_retrieved", "retrieved", "share"),
    ),
    spec=panels(
        "retrieval_method",
        points(
            names("model", labelAngle=-35, labelAlign="right"),
            share_y("accuracy", "accuracy, held out"),
            fixed("policy", "policy", _POLICIES),
            interval=("split_low", "split_high"),
            offset="policy",
        ),
        least=270,
        ratio=0.85,
    ),
    choose=("parametric_method", "variant"),
    plot_on="fct_adaptive_accuracy",
)

GAIN = Figure(
    key="adaptive_gain",
    section="thresholds",
    title="What adaptive retrieval gains",
    shows="Held-out accuracy of adaptive retrieval minus that of the better of always and never. Bars are 95 % "
    "intervals, from a bootstrap of the held-out gain over whole subjects. There is no interval if one fixed method "
    "is nearly always best or fewer than 20 subjects decide. To the right of zero, choosing by popularity is better.",
    source="PopQA, section 6.2",
    tables=("fct_adaptive_accuracy",),
    sql=f"""select dataset, prompt, model, parametric_method, retrieval_method, {VARIANT} as variant,
    n_questions, gain, gain_ci_low, gain_ci_high, gain_ci_undefined, share_retrieved
from marts.fct_adaptive_accuracy
order by dataset, prompt, model, retrieval_method, {VARIANT_ORDER}""",  # noqa: S608
    columns=(
        *PAIR,
        Column("variant", "thresholds"),
        Column("n_questions", "n", "count"),
        Column("gain", "gain", "signed", bounds("gain")),
        Column("gain_ci_undefined", "why no interval"),
    ),
    spec=single(
        points(
            difference_x("gain", "gain in accuracy", 8),
            names("model"),
            series("retrieval_method", "retrieval", of="method"),
            interval=bounds("gain"),
            offset="retrieval_method",
            zero=True,
        ),
        rows="model",
        step=70,
    ),
    choose=("parametric_method", "variant"),
    plot_on="fct_adaptive_accuracy",
)

THRESHOLDS = Figure(
    key="adaptive_thresholds",
    section="thresholds",
    title="Where the thresholds are",
    shows="Adaptive retrieval retrieves for questions below their threshold and trusts memory for the others. The "
    "thresholds are fitted on all questions with both answers (search `exact`). A point at the right edge of a panel "
    "means that nearly all questions get a passage, at the left edge nearly none. Pairs that give all questions a "
    "passage, or none, have no point; the table says `always` or `never`, and which thresholds are chosen on fewer than "
    "20 questions. A question without a relation takes the threshold for all.",
    source="PopQA, section 6.1",
    tables=("fct_adaptive_thresholds",),
    sql="""select dataset, prompt, model, parametric_method, retrieval_method, relation, n,
    if(is_chosen_on_few, 'fewer than 20 questions', null) as few,
    case when decision = 'below' then threshold_popularity end as threshold,
    if(decision = 'below', 'below the threshold', decision) as retrieves, share_retrieved,
    accuracy, accuracy_always, accuracy_never
from marts.fct_adaptive_thresholds
where search = 'exact'
order by dataset, prompt, model, retrieval_method, relation""",
    columns=(
        *PAIR,
        Column("relation", "relation"),
        N,
        Column("threshold", "threshold", "number"),
        Column("retrieves", "retrieves"),
        Column("share_retrieved", "retrieved, in sample", "share"),
        Column("accuracy", "accuracy, in sample", "share"),
        Column("few", "chosen on"),
        Column("accuracy_always", "always", "share"),
        Column("accuracy_never", "never", "share"),
    ),
    spec=relation_dots("retrieval_method", popularity_x("threshold", {"$label": "threshold"}), least=270),
    choose=("parametric_method",),
    plot_on="fct_adaptive_thresholds",
)

USAGE = Figure(
    key="share_retrieved",
    section="adaptive",
    title="How often adaptive retrieval retrieves",
    shows="Share of held-out questions for which adaptive retrieval retrieves, means over splits, by relation and model.",
    source="PopQA, Figures 10 and 15",
    tables=("fct_adaptive_usage",),
    sql=f"""select dataset, prompt, model, parametric_method, retrieval_method, {VARIANT} as variant, relation, n,
    n_splits, share_retrieved, accuracy_adaptive, undefined
from marts.fct_adaptive_usage
order by dataset, prompt, model, retrieval_method, {VARIANT_ORDER}, relation""",  # noqa: S608
    columns=(
        *PAIR,
        Column("variant", "thresholds"),
        Column("relation", "relation"),
        N,
        Column("n_splits", "splits", "count"),
        Column("share_retrieved", "retrieved", "share"),
        Column("accuracy_adaptive", "accuracy", "share"),
        Column("undefined", "why undefined"),
    ),
    spec=relation_cells("retrieval_method", "share_retrieved", "share retrieved"),
    choose=("parametric_method", "variant"),
    plot_on="fct_adaptive_usage",
)

FIGURES = (ACCURACY, THRESHOLDS, GAIN, SIGNALS, QUALITY, RISK_COVERAGE, ARENA, USAGE)
