"""Figures of the tail: the effect of size there, the least popular questions, and the accuracy of guessing."""

from __future__ import annotations

from dagster_project.core.report.figure import Column, Figure
from dagster_project.core.report.figures.memory import (
    ACCURACY,
    FEWEST_BY_RELATION,
    KEY,
    WILSON,
    N,
)
from dagster_project.core.report.marks import (
    curves,
    fixed,
    names,
    panels,
    points,
    quantity,
    series,
    share_y,
    single,
    steps,
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
    f"questions from 1,000 to under 10,000, `below` those under 10. {WILSON} Models of unknown size, and levels under "
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
    f"14,267 questions, and one of the sizes here is the same share of this dataset. {WILSON}",
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
    "the model shows little knowledge. Bars are Wilson 95 % intervals.",
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

FIGURES = (SCALING, LEAST_POPULAR, GUESSING)
