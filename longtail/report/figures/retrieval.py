"""Figures of retrieval: where passages help and where they hurt."""

from __future__ import annotations

from longtail.report.figure import Column, Figure, bounds
from longtail.report.figures.memory import ACCURACY, FEWEST, INTERVAL, KEY, N
from longtail.report.marks import (
    cells,
    curves,
    names,
    panels,
    points,
    quantity,
    series,
    share_y,
    single,
)

PAIR = (
    *KEY[:3],
    Column("parametric_method", "memory"),
    Column("retrieval_method", "retrieval"),
)

BY_METHOD = Figure(
    key="accuracy_by_method",
    leads_to_answers=True,
    section="scores",
    title="Accuracy with and without retrieval",
    shows="Share of right answers among the questions that the method answered (n), by model and method. Bars are 95 % "
    "intervals of whole subjects. The passage of an upper bound is chosen because it contains the answer, and "
    "questions without such a passage are left out: it is no retriever.",
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
    shows="Accuracy by popularity relative to the other questions of the relation: log popularity, standardised "
    f"within the relation, in bins of half a standard deviation. {INTERVAL} Bins under {FEWEST} questions are left out.",
    source="PopQA, Figure 8",
    tables=("fct_accuracy_by_relative_popularity",),
    sql=f"""select dataset, prompt, model, method, z_low, z_high, (z_low + z_high) / 2 as z, n, accuracy, ci_low, ci_high
from marts.fct_accuracy_by_relative_popularity
where relation = 'all' and n >= {FEWEST}
order by dataset, prompt, model, method, z_low""",  # noqa: S608
    columns=(*KEY, Column("z_low", "z from", "number"), Column("z_high", "z to", "number"), N, ACCURACY),
    spec=panels(
        "model",
        curves(
            quantity(
                "z",
                "relative popularity",
                {"format": "+~g", "tickCount": 7},
                {"zero": False, "nice": False, "padding": 6},
            ),
            share_y("accuracy", "accuracy"),
            series("method", "method"),
        ),
        least=220,
    ),
    plot_on="fct_accuracy_by_relative_popularity",
)

QUADRANTS = Figure(
    key="retrieval_quadrants",
    leads_to_answers=True,
    section="effects",
    title="Right or wrong, without and with a passage",
    shows="Share of questions in each of the four cases; in brackets, the share of them whose passage contains a gold "
    "answer (recall@1), where the passages are known. Top right: misled, which means right from memory and wrong with "
    "the passage. Bottom left: rescued. The table has 95 % intervals of whole subjects.",
    source="PopQA, Table 1",
    tables=("fct_retrieval_quadrants",),
    sql="""select dataset, prompt, model, parametric_method, retrieval_method,
    if(parametric_correct, 'memory right', 'memory wrong') as memory,
    if(retrieval_correct, 'retrieval right', 'retrieval wrong') as retrieval,
    case when retrieval_correct then if(parametric_correct, 'both right', 'rescued')
        else if(parametric_correct, 'misled', 'neither right') end as outcome,
    n, share, share_ci_low, share_ci_high, n_known, recall_at_1, recall_at_1_ci_low, recall_at_1_ci_high,
    format('{:.0f} % ({})', 100 * share, coalesce(format('{:.2f}', recall_at_1), '–')) as shown
from marts.fct_retrieval_quadrants
order by dataset, prompt, model, retrieval_method, memory, retrieval""",
    columns=(
        *PAIR,
        Column("memory", "from memory"),
        Column("retrieval", "with retrieval"),
        N,
        Column("share", "share", "share", bounds("share")),
        Column("n_known", "questions whose passages are known"),
        Column("recall_at_1", "recall@1", "share", bounds("recall_at_1")),
    ),
    spec=panels(
        "model",
        cells(
            names("retrieval"),
            names("memory"),
            "share",
            title="share of questions",
            shown="shown",
        ),
        least=210,
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
    title="How often the passage contains the answer",
    shows="Share of questions whose first passage, or one of whose first five passages, contains a gold answer as a "
    "token sequence. A question without a passage counts as a miss. The table has 95 % intervals of whole subjects.",
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
        Column("recall_at_1", "recall@1", "share", bounds("recall_at_1")),
        Column("recall_at_5", "recall@5", "share", bounds("recall_at_5")),
    ),
    spec=panels(
        "retriever",
        cells(
            {"field": "at", "type": "nominal", "title": None, "axis": {"labelAngle": 0}},
            names("relation"),
            "recall",
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

_THIRDS = ("least popular", "middle", "most popular")
RECALL_BY_POPULARITY = Figure(
    key="retrieval_recall_by_popularity",
    section="retrieval",
    title="Recall in the long tail",
    shows="Share of questions whose first passage contains a gold answer, for three equal parts of the questions by the "
    "popularity of their subject. A question without a passage counts as a miss. Bars are 95 % intervals of whole "
    "subjects. The table also has the first five passages.",
    source="PopQA, section 5.2",
    tables=("fct_retrieval_recall_by_popularity_third",),
    sql=f"""select dataset, retriever, ['{"', '".join(_THIRDS)}'][third] as part, popularity_low, popularity_high, n,
    recall_at_1, recall_at_1_ci_low, recall_at_1_ci_high, recall_at_5, recall_at_5_ci_low, recall_at_5_ci_high
from marts.fct_retrieval_recall_by_popularity_third
order by dataset, retriever, third""",  # noqa: S608
    columns=(
        KEY[0],
        Column("retriever", "retriever"),
        Column("part", "third"),
        Column("popularity_low", "popularity from", "number"),
        Column("popularity_high", "to", "number"),
        N,
        Column("recall_at_1", "recall@1", "share", bounds("recall_at_1")),
        Column("recall_at_5", "recall@5", "share", bounds("recall_at_5")),
    ),
    spec=single(
        points(
            names("part"),
            share_y("recall_at_1", "recall@1"),
            series("retriever", "retriever"),
            interval=bounds("recall_at_1"),
            offset="retriever",
            size=90,
        ),
        height=300,
    ),
    plot_on="fct_retrieval_recall_by_popularity_third",
)

FIGURES = (BY_METHOD, RELATIVE, QUADRANTS, RECALL, RECALL_BY_POPULARITY)
