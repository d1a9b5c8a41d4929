"""Figures of retrieval: what passages mend and what they break."""

from __future__ import annotations

from dagster_project.core.report.figure import Column, Figure
from dagster_project.core.report.figures.memory import ACCURACY, KEY, RATE_HINTS, WILSON, N
from dagster_project.core.report.marks import (
    cells,
    curves,
    names,
    panels,
    points,
    series,
    share_y,
    single,
    tooltip,
)

PAIR = (
    *KEY[:3],
    Column("parametric_method", "memory"),
    Column("retrieval_method", "retrieval"),
)
EXAMPLES_EACH = 3
PASSAGE_CHARACTERS = 700

BY_METHOD = Figure(
    key="accuracy_by_method",
    section="retrieval",
    title="Accuracy with and without retrieval",
    shows="Share of right answers over all questions, by model and method. Bars are Wilson 95 % intervals. Method "
    "`oracle` reads a passage chosen because it holds the answer: an upper bound, not a retriever.",
    source="PopQA, Figures 7, 13 and 14",
    tables=("fct_accuracy",),
    sql="""select dataset, prompt, model, method, n, n_correct, accuracy, ci_low, ci_high
from marts.fct_accuracy
where relation = 'all'
order by dataset, prompt, model, method""",
    columns=(*KEY, N, Column("n_correct", "right", "count"), ACCURACY),
    spec=single(
        points(
            names("model"),
            share_y("accuracy", "accuracy"),
            series("method", "method"),
            tooltip(("model", "model"), ("method", "method"), *RATE_HINTS),
            low="ci_low",
            high="ci_high",
            offset="method",
            size=90,
        ),
        height=300,
    ),
)

RELATIVE = Figure(
    key="accuracy_by_relative_popularity",
    section="retrieval",
    title="Accuracy against relative popularity",
    shows="Popularity relative to the other questions of the relation: log popularity, standardised within the "
    f"relation, in bins of half a standard deviation. {WILSON} Bins under 40 questions are left out.",
    source="PopQA, Figure 8",
    tables=("fct_accuracy_by_relative_popularity",),
    sql="""select dataset, prompt, model, method, z_low, z_high, (z_low + z_high) / 2 as z, n, accuracy, ci_low, ci_high
from marts.fct_accuracy_by_relative_popularity
where relation = 'all' and n >= 40
order by dataset, prompt, model, method, z_low""",
    columns=(*KEY, Column("z_low", "from", "number"), Column("z_high", "to", "number"), N, ACCURACY),
    spec=panels(
        "model",
        curves(
            {
                "field": "z",
                "type": "quantitative",
                "title": "relative popularity (standard deviations)",
                "axis": {"format": "+~g", "tickCount": 7},
                "scale": {"zero": False, "nice": False, "padding": 6},
            },
            share_y("accuracy", "accuracy"),
            "ci_low",
            "ci_high",
            series("method", "method"),
            tooltip(
                ("model", "model"),
                ("method", "method"),
                ("z_low", "from", "+.1f"),
                ("z_high", "to", "+.1f"),
                *RATE_HINTS,
            ),
        ),
        least=260,
    ),
    plot_on="fct_accuracy_by_relative_popularity",
)

QUADRANTS = Figure(
    key="retrieval_quadrants",
    section="retrieval",
    title="Right or wrong, without and with a passage",
    shows="Share of questions in each of the four cases, and, in each, the share whose passage holds a gold answer "
    "(recall@1, in brackets). Top right: misled, right from memory and wrong with the passage. "
    "Bottom left: rescued. The table has Wilson 95 % intervals.",
    source="PopQA, Table 1",
    tables=("fct_retrieval_quadrants",),
    sql="""select dataset, prompt, model, parametric_method, retrieval_method,
    if(parametric_correct, 'memory right', 'memory wrong') as memory,
    if(retrieval_correct, 'retrieval right', 'retrieval wrong') as retrieval,
    n, share, share_ci_low, share_ci_high, recall_at_1, recall_at_1_ci_low, recall_at_1_ci_high,
    format('{:.0f} % ({})', 100 * share, coalesce(format('{:.2f}', recall_at_1), '–')) as shown
from marts.fct_retrieval_quadrants
order by dataset, prompt, model, retrieval_method, memory, retrieval""",
    columns=(
        *PAIR,
        Column("memory", "from memory"),
        Column("retrieval", "with retrieval"),
        N,
        Column("share", "share", "share", ("share_ci_low", "share_ci_high")),
        Column("recall_at_1", "recall@1", "share", ("recall_at_1_ci_low", "recall_at_1_ci_high")),
    ),
    spec=panels(
        "model",
        cells(
            names("retrieval"),
            names("memory"),
            "share",
            tooltip(
                ("model", "model"),
                ("memory", "from memory"),
                ("retrieval", "with retrieval"),
                ("share", "share of questions", ".1%"),
                ("n", "questions", ","),
                ("recall_at_1", "recall@1", ".3f"),
            ),
            scale={"domain": [0, 1], "scheme": "blues"},
            bright="datum['share'] > 0.7",
            title="share of questions",
            shown="shown",
        ),
        least=240,
        rows="memory",
        step=58,
        axis=100,
    ),
    choose=("parametric_method", "retrieval_method"),
    plot_on="fct_retrieval_quadrants",
)

RECALL = Figure(
    key="retrieval_recall",
    section="retrieval",
    title="How often the passage holds the answer",
    shows="Share of questions of which the first passage, or one of the first five, holds a gold answer as a token "
    "sequence. A question without a passage counts as missed. The table has Wilson 95 % intervals.",
    source="PopQA, section 5.2",
    tables=("fct_retrieval_recall",),
    sql="""select dataset, retriever, relation, n, recall_at_1, recall_at_1_ci_low, recall_at_1_ci_high,
    recall_at_5, recall_at_5_ci_low, recall_at_5_ci_high
from marts.fct_retrieval_recall
order by dataset, retriever, relation""",
    columns=(
        KEY[0],
        Column("retriever", "retriever"),
        Column("relation", "relation"),
        N,
        Column("recall_at_1", "recall@1", "share", ("recall_at_1_ci_low", "recall_at_1_ci_high")),
        Column("recall_at_5", "recall@5", "share", ("recall_at_5_ci_low", "recall_at_5_ci_high")),
    ),
    spec=panels(
        "retriever",
        cells(
            {"field": "at", "type": "nominal", "title": None, "axis": {"labelAngle": 0}},
            names("relation"),
            "recall",
            tooltip(
                ("retriever", "retriever"),
                ("relation", "relation"),
                ("at", "passages"),
                ("recall", "recall", ".3f"),
                ("n", "questions", ","),
            ),
            scale={"domain": [0, 1], "scheme": "blues"},
            bright="datum['recall'] > 0.7",
            title="recall",
        )
        | {
            "transform": [
                {"fold": ["recall_at_1", "recall_at_5"], "as": ["key", "recall"]},
                {"calculate": "datum.key == 'recall_at_1' ? 'first' : 'first five'", "as": "at"},
            ]
        },
        least=170,
        rows="relation",
        axis=120,
    ),
    plot_on="fct_retrieval_recall",
)

_EXAMPLES = """with examples as (
    select effects.*, coalesce(passages.text, generated.text) as passage_text,
        row_number() over (
            partition by effects.dataset, effects.prompt, effects.model, effects.parametric_method,
                effects.retrieval_method
            order by md5(effects.question_id)
        ) as place
    from marts.fct_passage_effects as effects
    left join marts.dim_passages as passages on effects.passage_id = passages.passage_id
    left join marts.fct_generated_passages as generated
        on effects.dataset = generated.dataset and effects.question_id = generated.question_id
        and effects.model = generated.model and effects.passage_id = generated.passage_id
    where effects.effect = '{effect}'
)
select dataset, prompt, model, parametric_method, retrieval_method, relation, question,
    list_slice(gold_answers, 1, 5) as gold_answers,
    parametric_prediction, retrieval_prediction, passage_title, passage_of, passage_text[1:{characters}] as passage,
    length(passage_text) > {characters} as is_cut, subject_popularity
from examples
where place <= {each}
order by dataset, prompt, model, parametric_method, retrieval_method, place"""
_EXAMPLE_COLUMNS = (
    *PAIR,
    Column("relation", "relation"),
    Column("question", "question"),
    Column("gold_answers", "gold answers"),
    Column("parametric_prediction", "from memory"),
    Column("retrieval_prediction", "with the passage"),
    Column("passage_title", "passage"),
    Column("passage_of", "passage is of"),
    Column("subject_popularity", "popularity", "number"),
)


def _examples(key: str, effect: str, title: str, shows: str, source: str) -> Figure:
    sql = _EXAMPLES.format(effect=effect, each=EXAMPLES_EACH, characters=PASSAGE_CHARACTERS)
    capped = (
        f"At most {EXAMPLES_EACH} a model and pair of methods, drawn by a hash of the question's id, not chosen; "
        f"passages are cut at {PASSAGE_CHARACTERS} characters. All of them: `marts.fct_passage_effects`."
    )
    return Figure(
        key=key,
        section="retrieval",
        title=title,
        shows=f"{shows} {capped}",
        source=source,
        tables=("fct_passage_effects",),
        sql=sql,
        columns=_EXAMPLE_COLUMNS,
        choose=("model", "parametric_method", "retrieval_method"),
        kind="examples",
    )


MISLED = _examples(
    "misled_by_a_passage",
    "misled",
    "Misled by a passage",
    "Questions answered right from memory and wrong with the retrieved passage.",
    "PopQA, Table 3",
)
RESCUED = _examples(
    "rescued_by_a_passage",
    "rescued",
    "Rescued by a passage",
    "Questions answered wrong from memory and right with the retrieved passage.",
    "PopQA, Table 4",
)

PASSAGE_OF = Figure(
    key="whose_passage",
    section="retrieval",
    title="Whose passage was read",
    shows="Of the questions that a passage misled or rescued: is the passage that of the question's subject, of a "
    "namesake, or of another entity? Share within each bar; the table has the counts.",
    source="PopQA, appendix C.3",
    tables=("fct_passage_effects",),
    sql="""with counted as (
    select dataset, prompt, model, parametric_method, retrieval_method, effect,
        coalesce(passage_of, 'unknown') as whose, count(*) as n
    from marts.fct_passage_effects
    group by all
)
select * rename (whose as passage_of),
    n / sum(n) over (partition by dataset, prompt, model, parametric_method, retrieval_method, effect) as share
from counted
order by dataset, prompt, model, retrieval_method, effect, passage_of""",
    columns=(
        *PAIR,
        Column("effect", "effect"),
        Column("passage_of", "passage is of"),
        N,
        Column("share", "share", "share"),
    ),
    spec=panels(
        "effect",
        {
            "mark": {"type": "bar", "height": {"band": 0.66}},
            "encoding": {
                "y": names("model"),
                "x": {"field": "share", "type": "quantitative", "title": "share", "axis": {"format": "%"}},
                "color": {
                    "field": "passage_of",
                    "type": "nominal",
                    "title": "passage of",
                    "scale": {"domain": ["subject", "namesake", "other", "unknown"]},
                },
                "tooltip": tooltip(
                    ("model", "model"),
                    ("effect", "effect"),
                    ("passage_of", "passage of"),
                    ("n", "questions", ","),
                    ("share", "share", ".1%"),
                ),
            },
        },
        least=300,
        rows="model",
        step=32,
        axis=110,
    ),
    choose=("parametric_method", "retrieval_method"),
    plot_on="fct_passage_effects",
)

COMPARISON = Figure(
    key="paired_comparisons",
    section="retrieval",
    title="Methods and models, compared on the same questions",
    shows="Difference in accuracy between A and B on the questions that both answered, with a bootstrap 95 % interval "
    "(10,000 resamples of questions). The p value is McNemar's exact test, adjusted after Holm within the dataset; "
    "hollow points: not significant at 0.05 after the adjustment.",
    source="Longtail's own; compares the points of PopQA, Figure 7",
    tables=("fct_method_comparison",),
    sql="""select dataset, prompt, comparison, if(comparison = 'methods', model_a, method_a) as within,
    model_a, method_a, model_b, method_b,
    if(comparison = 'methods', method_a || ' − ' || method_b, model_a || ' − ' || model_b) as pair,
    n, difference, ci_low, ci_high, n_a_only, n_b_only, p_value, p_holm, undefined,
    coalesce(p_holm < 0.05, false) as is_significant
from marts.fct_method_comparison
order by dataset, prompt, comparison, within, difference desc""",
    columns=(
        *KEY[:2],
        Column("comparison", "of"),
        Column("within", "within"),
        Column("pair", "A − B"),
        N,
        Column("difference", "difference", "signed", ("ci_low", "ci_high")),
        Column("n_a_only", "only A right", "count"),
        Column("n_b_only", "only B right", "count"),
        Column("p_value", "McNemar p", "p"),
        Column("p_holm", "p after Holm", "p"),
        Column("undefined", "why not"),
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
                    "encoding": {"x": {"datum": 0}, "y": {"value": None}},
                },
                {
                    "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.55, "color": "var(--series-1)"},
                    "encoding": {
                        "x": {
                            "field": "ci_low",
                            "type": "quantitative",
                            "title": "difference in accuracy, A − B",
                            "axis": {"format": "+~%", "grid": True},
                        },
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
                        "tooltip": tooltip(
                            ("pair", "A − B"),
                            ("difference", "difference", "+.3f"),
                            ("ci_low", "from", "+.3f"),
                            ("ci_high", "to", "+.3f"),
                            ("n", "questions", ","),
                            ("p_holm", "p after Holm", ".2g"),
                        ),
                    },
                },
            ],
        },
        rows="pair",
        step=24,
    ),
    choose=("comparison", "within"),
    plot_on="fct_method_comparison",
)

FIGURES = (BY_METHOD, RELATIVE, QUADRANTS, RECALL, PASSAGE_OF, MISLED, RESCUED, COMPARISON)
