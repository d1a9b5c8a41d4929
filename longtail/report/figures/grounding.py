"""Figures of grounding: how much of what models write is quoted from the corpus (According-to prompting)."""

from __future__ import annotations

from typing import Any

from longtail.report.figure import Column, Figure, bounds
from longtail.report.figures.memory import BIN_EDGES, FEWEST, KEY
from longtail.report.marks import (
    curves,
    names,
    panels,
    points,
    popularity_x,
    series,
    share_y,
)

EXAMPLES_EACH = 3
TEXT_CHARACTERS = 900

# The background texts of a study are shared by all its prompts: their rows are shown with each.
_OF_PROMPTS = """inner join (
        select distinct dataset, prompt from marts.fct_mean_quip_scores where prompt is not null
    ) as prompts
    on scores.dataset = prompts.dataset and coalesce(scores.prompt, prompts.prompt) = prompts.prompt"""
_TEXT_FROM = "case scores.text_from when 'answers' then 'answers' else 'background texts' end"
QUIP_COLUMN = Column("quip", "mean QUIP", "share", bounds("quip"))
COUNTS = (
    Column("n_quip", "texts with QUIP", "count"),
    Column("n_undefined", "undefined", "count"),
)
MEASURE = (
    "QUIP is the share of a text's runs of 25 characters that occur in the corpus; texts under 25 characters have none, "
    "and are counted (undefined). "
)
INTERVALS = "Intervals are 95 % intervals of the mean over texts, by Student's t."
BINS = (
    Column("measure", "popularity"),
    *BIN_EDGES,
)
QUOTE_COLUMNS = (
    Column("question", "question"),
    Column("quip", "QUIP", "share"),
    Column("n_grams", "runs of 25 characters", "count"),
    Column("n_quotes", "quotations", "count"),
    Column("text", "text"),
)


def quip_y() -> dict[str, Any]:
    """Mean QUIP on the vertical axis, which need not begin at zero."""
    return {**share_y("quip", "mean QUIP", whole=False), "axis": {"format": ".2f", "tickCount": 5}}


def by_bin(scores: str) -> str:
    """The columns of fct_grounding_by_popularity that its figures show."""
    return f"""replace({scores}.measure, '_', ' ') as measure, {scores}.bin_low, {scores}.bin_high,
    pow(10, {scores}.bin_center_log10) as popularity, {scores}.n_quip, {scores}.n_undefined,
    {scores}.mean_quip as quip, {scores}.quip_ci_low, {scores}.quip_ci_high"""


def by_bin_curves(colour: dict[str, Any]) -> dict[str, Any]:
    """Mean QUIP against popularity, by whatever measure is chosen."""
    return curves(
        popularity_x(title="popularity"),
        quip_y(),
        colour,
        interval=bounds("quip"),
    )


QUIP = Figure(
    key="quip",
    section="grounding",
    title="How much stands in the corpus",
    shows=f"{MEASURE}The corpus is that of the study's data portrait. A high QUIP shows words of the corpus, and does "
    f"not show that they answer the question. Each text has the same weight. {INTERVALS}",
    source="According-to prompting, section 3",
    tables=("fct_mean_quip_scores",),
    sql=f"""select scores.dataset, prompts.prompt, scores.model, scores.method, {_TEXT_FROM} as text_from,
    scores.n, scores.n_quip, scores.n_undefined, scores.mean_quip as quip, scores.quip_ci_low, scores.quip_ci_high
from marts.fct_mean_quip_scores as scores
{_OF_PROMPTS}
where scores.mean_quip is not null and scores.text_from <> 'grounded_generations'
order by scores.dataset, prompts.prompt, scores.text_from, scores.model, scores.method""",  # noqa: S608
    columns=(*KEY, Column("text_from", "kind of text"), Column("n", "texts", "count"), *COUNTS, QUIP_COLUMN),
    spec=panels(
        "text_from",
        points(
            quip_y(),
            names("model"),
            series("method", "method"),
            interval=bounds("quip"),
            offset="method",
        ),
        least=300,
        rows="model",
        step=46,
        axis=110,
    ),
    plot_on="fct_mean_quip_scores",
)

BY_POPULARITY = Figure(
    key="quip_by_popularity",
    section="grounding",
    title="Quotations against popularity",
    shows=f"{MEASURE}Do models quote the corpus more where the question is about a popular subject? Popularity is that "
    "of the subject, in ten bins of equal width in log popularity, or the number of passages of the corpus that have the "
    "question's entity and an answer (co-occurrence), in powers of ten. Each bin has at most 400 questions of a dataset, "
    f"which a hash draws. {INTERVALS} Bins with under {FEWEST} texts that have a QUIP are left out. The bin of "
    "questions without such a passage is in the table only.",
    source="According-to prompting, section 5",
    tables=("fct_grounding_by_popularity",),
    sql=f"""select scores.dataset, prompts.prompt, scores.model, scores.method, {_TEXT_FROM} as text_from,
    {by_bin("scores")}
from marts.fct_grounding_by_popularity as scores
{_OF_PROMPTS}
where scores.n_quip >= {FEWEST} and scores.text_from <> 'grounded_generations'
order by scores.dataset, prompts.prompt, scores.text_from, scores.model, scores.method, measure, scores.bin""",  # noqa: S608
    columns=(
        *KEY,
        Column("text_from", "kind of text"),
        *BINS,
        *COUNTS,
        QUIP_COLUMN,
    ),
    spec=panels(
        "model",
        by_bin_curves(series("method", "method")),
        least=260,
    ),
    choose=("text_from", "measure"),
    plot_on="fct_grounding_by_popularity",
)

QUOTES = Figure(
    key="quoted_spans",
    section="grounding",
    title="Texts with their quotations marked",
    shows="What stands in the corpus is marked: each mark is a longest possible run of 25 characters or more. At most "
    f"{EXAMPLES_EACH} texts per model, method and kind of text, among those with a QUIP. A hash of the question's id "
    f"draws them; nobody chose them. Texts are cut at {TEXT_CHARACTERS} characters. Table `marts.fct_quip_scores` has "
    "all of them.",
    source="According-to prompting, Figure 2",
    tables=("fct_quip_scores",),
    sql=f"""with drawn as (
    select *, row_number() over (
        partition by dataset, prompt, model, method, text_from order by md5(question_id), question_id
    ) as place
    from marts.fct_quip_scores
    where quip is not null
)
select scores.dataset, prompts.prompt, scores.model, scores.method, {_TEXT_FROM} as text_from, questions.question,
    scores.quip, scores.n_grams, scores.raw_text[1:{TEXT_CHARACTERS}] as text, scores.span_starts, scores.span_ends,
    length(scores.raw_text) > {TEXT_CHARACTERS} as is_cut, scores.n_quotes
from drawn as scores
{_OF_PROMPTS}
left join marts.dim_questions as questions
    on scores.dataset = questions.dataset and scores.question_id = questions.question_id
where scores.place <= {EXAMPLES_EACH}
order by scores.dataset, prompts.prompt, scores.text_from, scores.model, scores.method, scores.place""",  # noqa: S608
    columns=(
        *KEY,
        Column("text_from", "kind of text"),
        *QUOTE_COLUMNS,
    ),
    choose=("model", "method", "text_from"),
    kind="quotes",
)

FIGURES = (QUIP, BY_POPULARITY, QUOTES)
