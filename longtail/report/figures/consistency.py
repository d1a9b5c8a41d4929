"""Figures of semantic consistency (PopQA-TP)."""

from __future__ import annotations

from longtail.report.figure import Column, Figure
from longtail.report.figures.memory import KEY, N
from longtail.report.marks import panels, quantity, relation_dots, share_y, value_x

_COLUMNS = (
    *KEY[:3],
    Column("relation", "relation"),
    Column("accuracy", "accuracy", "share"),
    Column("n", "n of accuracy", "count"),
    Column("scons", "consistency", "share"),
    Column("n_scons", "n of consistency", "count"),
    Column("cert", "certainty", "share"),
    Column("n_cert", "n of certainty", "count"),
)
_SQL = """select dataset, prompt, model, relation, n, n_scons, n_cert, accuracy, scons, cert
from marts.fct_semantic_consistency
where relation <> 'all' and scons is not null
order by dataset, prompt, model, relation"""

BY_RELATION = Figure(
    key="consistency_by_relation",
    section="consistency",
    title="Consistency and certainty by relation",
    shows="Consistency is the mean cosine similarity of a model's answers to paraphrases of one question. Certainty "
    "is the same for answers sampled for one wording. Both are means over the questions that have the measure (n); 1 "
    "means that all answers agree. A high value does not mean a right answer: a model may be certain of a wrong one.",
    source="PopQA-TP, sections 3.2 and 4.1, Figure 2",
    tables=("fct_semantic_consistency",),
    sql="""select dataset, prompt, model, relation, measure,
    case measure when 'consistency' then n_scons when 'certainty' then n_cert else n end as n, value
from (
    unpivot (
        select *, scons as consistency, cert as certainty from marts.fct_semantic_consistency
    ) on consistency, certainty, accuracy into name measure value value
)
order by dataset, prompt, measure desc, model, relation""",
    columns=(
        *KEY[:3],
        Column("relation", "relation"),
        Column("measure", "measure"),
        N,
        Column("value", "mean", "share"),
    ),
    spec=relation_dots("measure", value_x("value"), least=260),
    plot_on="fct_semantic_consistency",
)

AGAINST_ACCURACY = Figure(
    key="consistency_against_accuracy",
    section="consistency",
    title="Consistency against accuracy",
    shows="One point per relation. If the points rise, a model that agrees with itself is more often right.",
    source="PopQA-TP, Figure 3",
    tables=("fct_semantic_consistency",),
    sql=_SQL,
    columns=_COLUMNS,
    spec=panels(
        "model",
        {
            "mark": {
                "type": "point",
                "filled": True,
                "size": 60,
                "opacity": 0.85,
                "color": "var(--series-1)",
            },
            "encoding": {
                "x": quantity("scons", "consistency", {"tickCount": 5}, {"zero": False}),
                "y": share_y("accuracy", "accuracy"),
            },
        },
        least=220,
    ),
)

PARAPHRASES = Figure(
    key="paraphrase_quality",
    section="consistency",
    title="How close the paraphrases are",
    shows="Cosine of the sentence embeddings of a paraphrase and its question: the mean per relation, then over "
    "relations. The paper reports 0.914 for its own paraphrases. If the values were low, inconsistent answers would "
    "not be a fault of the model.",
    source="PopQA-TP, section 2",
    tables=("fct_paraphrase_quality",),
    sql="""select dataset, relation, encoder, n_questions, n_paraphrases, mean_cosine, least_cosine
from marts.fct_paraphrase_quality
order by dataset, relation <> 'all', relation""",
    columns=(
        KEY[0],
        Column("relation", "relation"),
        Column("encoder", "encoder"),
        Column("n_questions", "questions", "count"),
        Column("n_paraphrases", "paraphrases", "count"),
        Column("mean_cosine", "mean cosine", "share"),
        Column("least_cosine", "lowest", "share"),
    ),
    kind="table",
)

FIGURES = (BY_RELATION, AGAINST_ACCURACY, PARAPHRASES)
