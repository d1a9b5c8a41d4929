"""Figures of parametric memory: the main curve and its numbers, correlation, relations, size, the tail, guessing."""

from __future__ import annotations

from typing import Any

from longtail.report.figure import Figure, bounds
from longtail.report.marks import (
    ACCURACY_Y,
    LOG_TICKS,
    METHODS,
    categories,
    curves,
    curves_in_panels,
    each_model_and_dataset,
    panels,
    points,
    points_in_rows,
    popularity_x,
    quantity,
    relation_cells,
    rows_of_points,
    series,
)
from longtail.warehouse.publication import HEADLINE_SQL

INTERVAL = "Bands and bars are 95 % intervals of whole subjects."
FEWEST = 40
"""The smallest number of questions of a drawn bin (SPEC §6). The next constant is for grids by relation and
level."""
FEWEST_BY_RELATION = 5

SEVERAL = "(select count(distinct dataset) > 1 from marts.fct_accuracy)"
SYSTEM = f"model || if({SEVERAL}, chr(10) || dataset, '')"
"""A model, and in a second line its data set if the study has several: a row or panel of a figure of all data sets."""
GEOMETRIC_MEAN = "nullif(if(bin_low > 0, sqrt(bin_low * bin_high), bin_high), 0) as popularity"
"""The place of a bin on a logarithmic axis."""

_CURVE = curves(popularity_x(), ACCURACY_Y, METHODS)

BY_POPULARITY = Figure(
    key="accuracy_by_popularity",
    leads_to_answers=True,
    title="Accuracy against popularity",
    shows="Share of right answers, from the least to the most popular subjects. Retrieval helps where a method with a "
    "passage is above memory alone, and hurts where it is below. Ten bins of equal width in log popularity; one "
    f"panel per model, smallest model first. {INTERVAL} Bins under {FEWEST} questions are left out.",
    source="PopQA, Figures 4 and 6",
    sql=f"""select dataset, prompt, model, method, bin_low, bin_high, pow(10, bin_center_log10) as popularity,
    n, n_correct, accuracy, ci_low, ci_high
from marts.fct_accuracy_by_popularity
where relation = 'all' and n >= {FEWEST}
order by dataset, prompt, model, method, bin""",  # noqa: S608
    spec=panels("model", _CURVE, least=220),
)

ACROSS = Figure(
    key="accuracy_across_datasets",
    title="Accuracy against popularity, in every data set",
    shows="Share of right answers in each tenth of a data set's questions by popularity, or in each quarter where a "
    f"tenth has under {FEWEST} answers. One panel per model and data set, smallest model first, whatever data "
    "set is picked above. A point is at the geometric mean of the lowest and the highest popularity of its "
    "questions. Memory and methods with passages stand in one panel where both are known. A curve of all "
    "questions mixes relations, which can even turn its sign: the figure `Popularity and accuracy, between and within "
    f"relations` shows both. {{without_popularity}}{INTERVAL}",
    source="PopQA, Figures 4 and 6; SPEC §12, bins of equal number",
    sql=f"""with curves as (
    select * from marts.fct_accuracy_by_popularity_quantile
    where {SEVERAL}
    qualify binning = if(
        min(n) filter (where binning = 'deciles') over (partition by dataset, prompt, model, method) >= {FEWEST},
        'deciles', 'quarters'
    )
)
select prompt, model, method, dataset as questions_of, {SYSTEM} as system, binning, bin_low, bin_high, {GEOMETRIC_MEAN},
    n, n_correct, accuracy, ci_low, ci_high
from curves
order by prompt, model, questions_of, method, bin""",  # noqa: S608
    spec=each_model_and_dataset(curves(popularity_x(title=None), ACCURACY_Y, METHODS), least=150),
)

BY_POPULARITY_AND_RELATION = Figure(
    key="accuracy_by_popularity_and_relation",
    leads_to_answers=True,
    title="Accuracy against popularity, by relation",
    shows=f"The curves at the top of the page, with one panel per relation; bins under {FEWEST_BY_RELATION} questions "
    f"are left out. {INTERVAL} With so few questions per bin the intervals are wide: read the direction of a curve, not "
    "its single points. Questions without a relation are left out.",
    source="PopQA, Figures 6, 20 and 21",
    sql=f"""select dataset, prompt, model, method, relation, bin_low, bin_high,
    pow(10, bin_center_log10) as popularity, n, n_correct, accuracy, ci_low, ci_high
from marts.fct_accuracy_by_popularity
where relation <> 'all' and n >= {FEWEST_BY_RELATION}
order by dataset, prompt, model, relation, method, bin""",  # noqa: S608
    spec=panels("relation", _CURVE, least=200, ratio=0.66),
    choose=("model",),
)

BY_RELATION = Figure(
    key="accuracy_by_relation",
    leads_to_answers=True,
    title="Accuracy by relation",
    shows="Share of right answers by relation and model, with one panel per method. The table has n and the "
    "95 % interval of every cell, over whole subjects. Questions without a relation count under `all` alone.",
    source="PopQA, Figures 4 (right), 16 and 18",
    sql="""select dataset, prompt, model, method, relation, n, n_correct, accuracy, ci_low, ci_high
from marts.fct_accuracy
order by dataset, prompt, model, method, relation""",
    spec=relation_cells("method", "accuracy", "accuracy"),
)

LEVELS = ["below", "[1,2)", "[2,3)", "[3,4)", "[4,5)", "[5,∞)"]

SIZE_X = quantity(
    "n_parameters",
    "parameters of the model",
    {
        "labelExpr": "replace(format(datum.value, '.3~s'), 'G', 'B')",
        "values": LOG_TICKS,
        "labelOverlap": True,
    },
    {"type": "log", "nice": False, "padding": 14},
)
SCALING = Figure(
    key="scaling_by_level",
    title="The effect of size, by level of popularity",
    shows="Accuracy against the number of parameters, by level of popularity ({popularity}). Level [3,4) has the "
    f"questions from 1,000 to under 10,000, `below` those under 10. {INTERVAL} Models of unknown size, and levels under "
    f"{FEWEST_BY_RELATION} questions, are left out.",
    source="PopQA, Figure 5",
    sql=f"""select dataset, prompt, model, method, n_parameters, level, n, n_correct, accuracy, ci_low, ci_high
from marts.fct_accuracy_by_popularity_level
where n >= {FEWEST_BY_RELATION} and n_parameters is not null
order by dataset, prompt, method, level_low_log10 nulls first, n_parameters""",  # noqa: S608
    spec=curves_in_panels(
        "method",
        SIZE_X,
        ACCURACY_Y,
        categories("level", "log10 popularity", LEVELS, is_ordered=True),
        least=200,
    ),
)

_QUARTERS = ["least popular quarter", "most popular quarter"]
BY_SIZE = Figure(
    key="accuracy_by_size",
    title="The effect of size, for the least and the most popular quarter",
    shows="Accuracy against the number of parameters, on the quarter of a data set's questions with the least and "
    "with the most popular subjects. One panel per data set, whatever data set is picked above; its models, "
    "which may differ in more than size, were asked the same questions. "
    "{without_size}{without_popularity}Bars are 95 % intervals of whole subjects.",
    source="PopQA, Figure 5; SPEC §6, scaling",
    sql=f"""select prompt, model, method, dataset as questions_of, n_parameters,
    if(bin = 0, '{_QUARTERS[0]}', '{_QUARTERS[1]}') as quarter, bin_low, bin_high, n, n_correct, accuracy, ci_low, ci_high
from marts.fct_accuracy_by_popularity_quantile inner join marts.dim_models using (model)
where binning = 'quarters' and bin in (0, 3) and n_parameters is not null
order by prompt, model, method, questions_of, bin""",  # noqa: S608
    spec=panels(
        "questions_of", points(SIZE_X, ACCURACY_Y, categories("quarter", "questions", _QUARTERS)), least=200
    ),
    choose=("method",),
)

LEAST_POPULAR = Figure(
    key="least_popular",
    title="The least popular questions",
    shows="Accuracy on the n questions with the lowest popularity, ties broken by question id. The paper uses 4,000 of "
    f"14,267 questions, and one of the sizes here is the same share of this dataset. {INTERVAL}",
    source="PopQA, sections 1 and 5.2",
    sql="""select dataset, prompt, model, method, n_least, n, n_correct, accuracy, ci_low, ci_high
from marts.fct_accuracy_least_popular
order by dataset, prompt, model, method, n_least""",
    labels={"n_least": "least popular"},
    spec=curves_in_panels(
        "model",
        quantity(
            "n_least",
            "number of least popular questions",
            {"format": "~s", "values": LOG_TICKS, "labelOverlap": True},
            {"type": "log", "nice": False, "padding": 10},
        ),
        ACCURACY_Y,
        METHODS,
        least=220,
    ),
)

GUESSING = Figure(
    key="guessing_baselines",
    title="The accuracy of guessing",
    shows="A guess can be right in two ways: the subject's own name contains the gold answer, or the gold answer is "
    "the most frequent answer of the relation. Beside them is the model's accuracy from memory. If it is not higher, "
    "the model shows little knowledge. Bars are 95 % intervals of whole subjects.",
    source="PopQA, section 4.2 and appendix C.1",
    sql="""select keys.dataset, keys.prompt, keys.model, baselines.relation, 'in the subject''s name' as guess,
    baselines.n_with_subject as n, share_answer_in_subject as accuracy,
    share_answer_in_subject_ci_low as ci_low, share_answer_in_subject_ci_high as ci_high
from marts.fct_guessing_baselines as baselines
inner join (select distinct dataset, prompt, model from marts.fct_accuracy) as keys using (dataset)
where share_answer_in_subject is not null
union all by name
select keys.dataset, keys.prompt, keys.model, baselines.relation, 'most frequent answer' as guess,
    baselines.n_with_relation as n, accuracy_majority as accuracy, accuracy_majority_ci_low as ci_low,
    accuracy_majority_ci_high as ci_high
from marts.fct_guessing_baselines as baselines
inner join (select distinct dataset, prompt, model from marts.fct_accuracy) as keys using (dataset)
where accuracy_majority is not null
union all by name
select accuracy.dataset, accuracy.prompt, accuracy.model, relation, 'model, from memory' as guess,
    accuracy.n, accuracy.accuracy, accuracy.ci_low, accuracy.ci_high
from marts.fct_accuracy as accuracy
inner join marts.dim_methods as methods on accuracy.method = methods.method
where methods.kind = 'memory'
order by dataset, prompt, model, relation, guess""",
    spec=rows_of_points(
        quantity("accuracy", "share right", {"format": "%", "grid": True}, {"domain": [0, 1]}),
        "relation",
        categories("guess", "way", ["model, from memory", "most frequent answer", "in the subject's name"]),
        side_by_side=True,
        step=34,
    ),
    choose=("model",),
)


HEADLINE = Figure(
    key="headline",
    leads_to_answers=True,
    title="The headline in numbers",
    shows="One row per model and method: accuracy with its 95 % interval of whole subjects, and the correlation of "
    "accuracy with popularity over bins. Where a model declined to answer, the row has that share, and the accuracy of "
    "its other answers. For methods that retrieve, the row also has adaptive retrieval (thresholds are fitted per "
    "relation on 75 % of the questions and scored on the rest; means over the splits). `adaptive`, `always` and "
    "`never` are scored on questions with popularity and both answers, so `always` can differ a little from the "
    "accuracy beside it. The gain and its interval are those of the figure `What deciding when to retrieve gains`.",
    source="PopQA, Figures 4, 7 and 9",
    sql=f"""with headline as (
    {HEADLINE_SQL}
)
select headline.*, verdicts.popularity_gain as gain, verdicts.popularity_gain_ci_low as gain_ci_low,
    verdicts.popularity_gain_ci_high as gain_ci_high
from headline
left join marts.fct_verdicts as verdicts
    on headline.dataset = verdicts.dataset and headline.prompt = verdicts.prompt
    and headline.model = verdicts.model and headline.method = verdicts.retrieval_method
order by headline.dataset, headline.prompt, headline.model, headline.method""",  # noqa: S608
    labels={"pearson_binned": "r, popularity", "gain": "adaptive gain"},
    hidden=("n_correct",),
)


def _correlation_x(field: str, title: str) -> dict[str, Any]:
    axis = {"format": ".2f", "grid": True, "tickCount": 6}
    return quantity(field, title, axis)


CORRELATION = Figure(
    key="correlation_by_relation",
    title="How well popularity predicts accuracy",
    shows="Pearson correlation of the accuracy of a bin with its log popularity, over the bins with questions. A cell "
    "has at most ten points, so its correlation is easily near ±1, and it has no interval. The table also has the "
    "point-biserial and Spearman correlations over single questions, with bootstrap 95 % intervals; they are usually "
    "much smaller. A dash means "
    "undefined (under three bins, or no variance).",
    source="PopQA, Figures 4 (bottom), 17 and 19",
    sql="""select dataset, prompt, model, method, relation, n, n_missing_popularity, n_bins,
    pearson_binned, pearson_binned_undefined, point_biserial, point_biserial_ci_low, point_biserial_ci_high,
    spearman, spearman_ci_low, spearman_ci_high, unbinned_undefined
from marts.fct_popularity_correlation
order by dataset, prompt, model, method, relation""",
    spec=relation_cells(
        "method",
        "pearson_binned",
        "correlation",
        scale={"domain": [-1, 1], "domainMid": 0, "scheme": "purpleorange", "reverse": True},
        text="+.2f",
    ),
)

_SCOPES = ("over all answers", "within relations")
WITHIN = Figure(
    key="correlation_within_relations",
    title="Popularity and accuracy, between and within relations",
    shows="Two correlations of correctness with popularity, over single questions. `over all answers` takes all "
    "questions together, so it also follows the difficulty of relations. If an easy relation has unpopular subjects, it "
    "falls; it can even be negative while popularity helps in every relation. `within relations` compares a question "
    "only with questions of its own relation: the mean of the relation is subtracted from correctness and from "
    "popularity (from its logarithm, or from its rank in the relation). Read `within relations` to learn whether "
    "popularity helps. One row per model and data set, whatever data set is picked above. Bars are bootstrap 95 % "
    "intervals (1,000 resamples of subjects). {without_popularity}Questions without popularity, or with popularity zero, "
    "are left out; questions without a relation are left out of `within relations`.",
    source="SPEC §6, correlation; rank correlation within relations: Liu, Li, Wanga and Shepherd (2018)",
    sql=f"""with scopes as (select prompt, model, method, dataset as questions_of, {SYSTEM} as system, unnest([
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
where relation = 'all' and n > 0)
select * from scopes
order by prompt, model, method, questions_of, measure desc, scope""",  # noqa: S608
    labels={"undefined": "why no interval"},
    spec=rows_of_points(
        _correlation_x("correlation", "correlation"),
        "system",
        categories("scope", "correlation", _SCOPES),
        side_by_side=True,
        mark_at=0,
        step=40,
    ),
    choose=("method", "measure"),
)

MEASURES = Figure(
    key="popularity_measures",
    title="Do the measures of popularity agree?",
    shows="Spearman's rank correlation of each two measures, over the questions that have both: the popularity that the "
    "study chose, the site links of the subject's item, and counts of subjects and answers in texts, if the study has "
    "any. Where measures rank subjects alike, it matters little which of them decides. Bars are 95 % intervals "
    "by Fisher's transformation, where questions on one subject count as one.",
    source="SPEC §11, counts in text; interval: Bonett and Wright (2000)",
    sql="""select dataset, signal, other_signal, n, n_subjects, spearman, spearman_ci_low, spearman_ci_high
from marts.fct_popularity_measures
order by dataset, signal, other_signal""",
    labels={"signal": "measure", "other_signal": "other measure"},
    spec=points_in_rows(
        "other_signal",
        _correlation_x("spearman", "rank correlation"),
        "signal",
        series("signal"),
        interval=bounds("spearman"),
        mark_at=0,
        least=270,
    ),
)
