"""Figures of parametric memory: accuracy against popularity and relation; model size, the tail, and guessing."""

from __future__ import annotations

from longtail.report.figure import Column, Figure, bounds
from longtail.report.marks import (
    curves,
    fixed,
    names,
    panels,
    points,
    popularity_x,
    quantity,
    relation_cells,
    series,
    share_y,
    single,
    steps,
)

KEY = (
    Column("dataset", "dataset"),
    Column("prompt", "prompt"),
    Column("model", "model"),
    Column("method", "method"),
)
ACCURACY = Column("accuracy", "accuracy", "share", bounds())
DECLINED = (
    Column("share_declined", "declined", "share"),
    Column("accuracy_attempted", "accuracy of the rest", "share", bounds("accuracy_attempted")),
)
N = Column("n", "n", "count")
BIN_EDGES = (
    Column("bin_low", "popularity from", "number"),
    Column("bin_high", "popularity to", "number"),
)
INTERVAL = "Bands and bars are 95 % intervals of whole subjects."
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
    f"panel per model, smallest model first. {INTERVAL} Bins under {FEWEST} questions are left out.",
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
    f"are left out. {INTERVAL} With so few questions per bin the intervals are wide: read the direction of a curve, not "
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
    shows="Share of right answers by relation and model, with one panel per method. The table has n and the "
    "95 % interval of every cell, over whole subjects. Questions without a relation count under `all` alone.",
    source="PopQA, Figures 4 (right), 16 and 18",
    tables=("fct_accuracy",),
    sql="""select dataset, prompt, model, method, relation, n, n_correct, accuracy, ci_low, ci_high
from marts.fct_accuracy
order by dataset, prompt, model, method, relation""",
    columns=(*KEY, Column("relation", "relation"), N, Column("n_correct", "right", "count"), ACCURACY),
    spec=relation_cells("method", "accuracy", "accuracy"),
    plot_on="fct_accuracy",
)

LEVELS = ["below", "[1,2)", "[2,3)", "[3,4)", "[4,5)", "[5,∞)"]

SIZE_X = quantity(
    "n_parameters",
    "parameters of the model",
    {"format": ".3~s", "tickCount": 4, "labelOverlap": True},
    {"type": "log", "nice": False, "padding": 14},
)
SCALING = Figure(
    key="scaling_by_level",
    section="memory",
    title="The effect of size, by level of popularity",
    shows="Accuracy against the number of parameters, by level of popularity ({popularity}). Level [3,4) has the "
    f"questions from 1,000 to under 10,000, `below` those under 10. {INTERVAL} Models of unknown size, and levels under "
    f"{FEWEST_BY_RELATION} questions, are left out.",
    source="PopQA, Figure 5",
    tables=("fct_accuracy_by_popularity_level",),
    sql=f"""select dataset, prompt, model, method, n_parameters, level, n, n_correct, accuracy, ci_low, ci_high
from marts.fct_accuracy_by_popularity_level
where n >= {FEWEST_BY_RELATION} and n_parameters is not null
order by dataset, prompt, method, level_low_log10 nulls first, n_parameters""",  # noqa: S608
    columns=(
        *KEY,
        Column("n_parameters", "parameters", "count"),
        Column("level", "log10 popularity"),
        N,
        Column("n_correct", "right", "count"),
        ACCURACY,
    ),
    spec=panels(
        "method",
        curves(
            SIZE_X,
            share_y("accuracy", "accuracy"),
            steps("level", "log10 popularity", LEVELS),
        ),
        least=200,
    ),
    plot_on="fct_accuracy_by_popularity_level",
)

LEAST_POPULAR = Figure(
    key="least_popular",
    section="memory",
    title="The least popular questions",
    shows="Accuracy on the n questions with the lowest popularity, ties broken by question id. The paper uses 4,000 of "
    f"14,267 questions, and one of the sizes here is the same share of this dataset. {INTERVAL}",
    source="PopQA, sections 1 and 5.2",
    tables=("fct_accuracy_least_popular",),
    sql="""select dataset, prompt, model, method, n_least, n, n_correct, accuracy, ci_low, ci_high
from marts.fct_accuracy_least_popular
order by dataset, prompt, model, method, n_least""",
    columns=(
        *KEY,
        Column("n_least", "least popular", "count"),
        N,
        Column("n_correct", "right", "count"),
        ACCURACY,
    ),
    spec=panels(
        "model",
        curves(
            quantity(
                "n_least",
                "number of least popular questions",
                {"format": "~s", "tickCount": 4, "labelOverlap": True},
                {"type": "log", "nice": False, "padding": 10},
            ),
            share_y("accuracy", "accuracy"),
            series("method", "method"),
        ),
        least=220,
    ),
    plot_on="fct_accuracy_least_popular",
)

GUESSING = Figure(
    key="guessing_baselines",
    section="memory",
    title="The accuracy of guessing",
    shows="A guess can be right in two ways: the subject's own name contains the gold answer, or the gold answer is "
    "the most frequent answer of the relation. Beside them is the model's accuracy from memory. If it is not higher, "
    "the model shows little knowledge. Bars are 95 % intervals of whole subjects.",
    source="PopQA, section 4.2 and appendix C.1",
    tables=("fct_guessing_baselines", "fct_accuracy", "dim_methods"),
    sql="""select accuracy.dataset, accuracy.prompt, accuracy.model, relation, 'model, from memory' as guess,
    accuracy.n, accuracy.accuracy, accuracy.ci_low, accuracy.ci_high
from marts.fct_accuracy as accuracy
inner join marts.dim_methods as methods on accuracy.method = methods.method
where methods.kind = 'memory'
union all by name
select keys.dataset, keys.prompt, keys.model, baselines.relation, 'in the subject''s name' as guess,
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
order by dataset, prompt, model, relation, guess""",
    columns=(*KEY[:3], Column("relation", "relation"), Column("guess", "way"), N, ACCURACY),
    spec=single(
        points(
            quantity("accuracy", "share right", {"format": "%", "grid": True}, {"domain": [0, 1]}),
            names("relation"),
            fixed("guess", "way", ["model, from memory", "most frequent answer", "in the subject's name"]),
            offset="guess",
        ),
        rows="relation",
        step=34,
    ),
    choose=("model",),
    plot_on="fct_guessing_baselines",
)

FIGURES = (BY_RELATION, BY_POPULARITY_AND_RELATION, SCALING, LEAST_POPULAR, GUESSING)
