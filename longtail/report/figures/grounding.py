"""Figures of grounding: how much of what models write is quoted from the corpus, also when they are asked to quote."""

from __future__ import annotations

from typing import Any

from longtail.report.figure import Figure, Spec, bounds
from longtail.report.figures.memory import FEWEST, SIZE_X
from longtail.report.marks import (
    METHODS,
    categories,
    curves,
    curves_in_panels,
    difference_x,
    panels,
    points_in_rows,
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
MEASURE = (
    "QUIP is the share of a text's runs of 25 characters that occur in the corpus; texts under 25 characters have none, "
    "and are counted (undefined). "
)
INTERVALS = "Intervals are 95 % intervals of the mean over texts, by Student's t."


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
    return curves(popularity_x(title="popularity"), quip_y(), colour, interval=bounds("quip"))


QUIP = Figure(
    key="quip",
    title="How much stands in the corpus",
    shows=f"{MEASURE}The corpus is that of the study's data portrait. A high QUIP shows words of the corpus, and does "
    f"not show that they answer the question. Each text has the same weight. {INTERVALS}",
    source="According-to prompting, section 3",
    sql=f"""select scores.dataset, prompts.prompt, scores.model, scores.method, {_TEXT_FROM} as text_from,
    scores.n, scores.n_quip, scores.n_undefined, scores.mean_quip as quip, scores.quip_ci_low, scores.quip_ci_high
from marts.fct_mean_quip_scores as scores
{_OF_PROMPTS}
where scores.mean_quip is not null and scores.text_from <> 'grounded_generations'
order by scores.dataset, prompts.prompt, scores.text_from, scores.model, scores.method""",  # noqa: S608
    labels={"n": "texts"},
    spec=points_in_rows(
        "text_from",
        quip_y(),
        "model",
        METHODS,
        interval=bounds("quip"),
        side_by_side=True,
        least=300,
        step=46,
    ),
)

BY_POPULARITY = Figure(
    key="quip_by_popularity",
    title="Quotations against popularity",
    shows=f"{MEASURE}Do models quote the corpus more where the question is about a popular subject? Popularity is that "
    "of the subject, in ten bins of equal width in log popularity, or the number of passages of the corpus that have the "
    "question's entity and an answer (co-occurrence), in powers of ten. Each bin has at most 400 questions of a dataset, "
    f"which a hash draws. {INTERVALS} Bins with under {FEWEST} texts that have a QUIP are left out. The bin of "
    "questions without such a passage is in the table only.",
    source="According-to prompting, section 5",
    sql=f"""select scores.dataset, prompts.prompt, scores.model, scores.method, {_TEXT_FROM} as text_from,
    {by_bin("scores")}
from marts.fct_grounding_by_popularity as scores
{_OF_PROMPTS}
where scores.n_quip >= {FEWEST} and scores.text_from <> 'grounded_generations'
order by scores.dataset, prompts.prompt, scores.text_from, scores.model, scores.method, measure, scores.bin""",  # noqa: S608
    labels={"measure": "popularity"},
    spec=panels("model", by_bin_curves(METHODS), least=260),
    choose=("text_from", "measure"),
)

QUOTES = Figure(
    key="quoted_spans",
    title="Texts with their quotations marked",
    shows="What stands in the corpus is marked: each mark is a longest possible run of 25 characters or more. At most "
    f"{EXAMPLES_EACH} texts per model, method and kind of text, among those with a QUIP. A hash of the question's id "
    f"draws them; nobody chose them. Texts are cut at {TEXT_CHARACTERS} characters. Table `marts.fct_quip_scores` has "
    "all of them.",
    source="According-to prompting, Figure 2",
    sql=f"""select scores.dataset, prompts.prompt, scores.model, scores.method, {_TEXT_FROM} as text_from,
    questions.question, scores.quip, scores.n_grams, scores.raw_text[1:{TEXT_CHARACTERS}] as text,
    scores.span_starts, scores.span_ends, length(scores.raw_text) > {TEXT_CHARACTERS} as is_cut, scores.n_quotes
from marts.fct_quip_scores as scores
{_OF_PROMPTS}
left join marts.dim_questions as questions
    on scores.dataset = questions.dataset and scores.question_id = questions.question_id
where scores.quip is not null
qualify row_number() over (
    partition by scores.dataset, prompts.prompt, scores.model, scores.method, scores.text_from
    order by md5(scores.question_id), scores.question_id
) <= {EXAMPLES_EACH}
order by scores.dataset, prompts.prompt, scores.text_from, scores.model, scores.method, md5(scores.question_id),
    scores.question_id""",  # noqa: S608
    labels={"quip": "QUIP"},
    choose=("model", "method", "text_from"),
    cards="quotes",
)


_KINDS = ["null", "grounding", "anti-grounding"]
_KIND = "replace(grounding_kind, '_', '-') as grounding_kind"
_ORDER = "order by dataset, model, method, position_in_study"
_PAIRED = (
    "Both prompts are compared on the same questions. Bars are 95 % intervals from a paired bootstrap "
    "over questions."
)


def _by_prompt(difference: str, title: str) -> Spec:
    """One row per grounding prompt: a difference to the null prompt, with its interval."""
    return points_in_rows(
        "model",
        difference_x(difference, title, 5),
        "grounding_prompt",
        categories("grounding_kind", "kind", _KINDS),
        interval=bounds(difference),
        mark_at=0,
        least=340,
        step=30,
    )


PROMPTS = Figure(
    key="grounding_prompts",
    title="Does asking for quotations help?",
    shows=f"{MEASURE}Each prompt stands behind the question, and the corpus is that of the data portrait. The gain is "
    "the mean QUIP of the explanations under the prompt divided by that under the null prompt, which adds nothing, minus "
    f"one. {_PAIRED} The p value is from a test of the paired difference, with Holm's adjustment over a "
    "model's prompts.",
    source="According-to prompting, Tables 1 and 2",
    sql=f"""select dataset, model, method, grounding_prompt, {_KIND}, prompts.text, n, n_quip, n_undefined, n_unparsed,
    mean_quip as quip, quip_ci_low, quip_ci_high, n_paired, quip_ratio - 1 as gain,
    quip_ratio_ci_low - 1 as gain_ci_low, quip_ratio_ci_high - 1 as gain_ci_high, p_value, p_holm, undefined
from marts.fct_grounding_prompts
left join (select grounding_prompt, position_in_study, text from marts.dim_grounding_prompts) as prompts
    using (grounding_prompt)
{_ORDER}""",  # noqa: S608
    labels={"n": "generations", "text": "its words"},
    spec=_by_prompt("gain", "relative gain in QUIP"),
    choose=("method",),
)

END_TASK = Figure(
    key="grounding_end_task",
    title="Are answers right when quotations are asked for?",
    shows="The score by which the dataset judges answers (exact match, F1 or ROUGE-L) under each grounding prompt, minus "
    f"that under the null prompt. {_PAIRED} Where a model gives a short answer in the first of two steps, the answer "
    "comes before the grounding prompt and is the same under all of them.",
    source="According-to prompting, Tables 1 and 2",
    sql=f"""select dataset, model, method, grounding_prompt, {_KIND}, steps, replace(end_task, '_', ' ') as end_task,
    mean_score, score_ci_low, score_ci_high, n_scores_paired, score_difference, score_difference_ci_low,
    score_difference_ci_high, score_p_value, score_p_holm
from marts.fct_grounding_prompts
left join (select grounding_prompt, position_in_study from marts.dim_grounding_prompts) using (grounding_prompt)
{_ORDER}""",  # noqa: S608
    hidden=("grounding_kind",),
    spec=_by_prompt("score_difference", "difference of the score"),
    choose=("method",),
)

BY_SIZE = Figure(
    key="grounding_by_size",
    title="Size and instruction tuning",
    shows=f"{MEASURE}Mean QUIP of explanations against the number of parameters, by grounding prompt. Families of "
    f"models, and instruction-tuned and base models, have panels of their own. {INTERVALS} Models of "
    "unknown size are left out, and so is a single model.",
    source="According-to prompting, Figures 2 and 4",
    sql="""select found.dataset, found.model, found.method, found.grounding_prompt, found.n_parameters,
    models.family || case
        when found.is_instruction_tuned then ', instruction-tuned'
        when not found.is_instruction_tuned then ', base'
        else ''
    end as family,
    found.n_quip, found.n_undefined, found.mean_quip as quip, found.quip_ci_low, found.quip_ci_high
from marts.fct_grounding_prompts as found
left join marts.dim_models as models on found.model = models.model
where found.n_parameters is not null and found.mean_quip is not null
qualify min(found.model) over (partition by found.dataset) < max(found.model) over (partition by found.dataset)
order by found.dataset, found.method, family, found.grounding_prompt, found.n_parameters""",
    spec=curves_in_panels(
        "family",
        SIZE_X,
        quip_y(),
        series("grounding_prompt", "grounding prompt"),
        interval=bounds("quip"),
        few=True,
        least=300,
    ),
    choose=("method",),
)

PROMPTS_BY_POPULARITY = Figure(
    key="grounded_quip_by_popularity",
    title="Grounding prompts against popularity",
    shows=f"{MEASURE}Popularity is that of the subject, or the number of passages of the corpus that have the "
    f"question's entity and an answer (co-occurrence). {INTERVALS} Bins with under {FEWEST} texts that have a QUIP are "
    "left out, and so is a single bin. The bin of questions without such a passage is in the table only.",
    source="According-to prompting, Figure 3",
    sql=f"""select dataset, model, method, grounding_prompt, {by_bin("scores")}
from marts.fct_grounding_by_popularity as scores
where n_quip >= {FEWEST} and grounding_prompt is not null
qualify count(bin_center_log10) over (partition by dataset, model, method, grounding_prompt, measure) > 1
order by dataset, model, method, grounding_prompt, measure, bin""",  # noqa: S608
    labels={"measure": "popularity"},
    spec=panels("model", by_bin_curves(series("grounding_prompt", "grounding prompt")), least=260),
    choose=("method", "measure"),
)

EXPLANATIONS = Figure(
    key="grounded_spans",
    title="Explanations with their quotations marked",
    shows="What stands in the corpus is marked, as in the texts above. At most "
    f"{EXAMPLES_EACH} texts per model, method and grounding prompt, among those with a QUIP. A hash of the question's id "
    f"draws them, the same for all prompts; nobody chose them. Texts are cut at {TEXT_CHARACTERS} characters. Table "
    "`marts.fct_grounded_generations` has all of them.",
    source="According-to prompting, Table 5",
    sql=f"""select dataset, model, method, grounding_prompt, question, answer, quip, n_grams,
    explanation[1:{TEXT_CHARACTERS}] as text, span_starts, span_ends, length(explanation) > {TEXT_CHARACTERS} as is_cut,
    len(quotes) as n_quotes
from marts.fct_grounded_generations
left join (select dataset, question_id, question from marts.dim_questions) using (dataset, question_id)
where quip is not null
qualify row_number() over (
    partition by dataset, model, method, grounding_prompt order by md5(question_id), question_id
) <= {EXAMPLES_EACH}
order by dataset, model, method, grounding_prompt, md5(question_id), question_id""",  # noqa: S608
    labels={"quip": "QUIP"},
    choose=("model", "method", "grounding_prompt"),
    cards="quotes",
)

COMPARISONS = Figure(
    key="grounding_comparisons",
    title="A passage in front, and texts of equal length",
    shows=f"{MEASURE}Explanations with a passage in front are compared with those from memory, under the same grounding "
    "prompt; and explanations under a grounding prompt with those under the null prompt, by the same method. At equal "
    "length, QUIP counts as many 25-grams of both texts, from the start, as the shorter one has. Bars are 95 % intervals "
    "from a paired bootstrap over whole subjects. Holm's adjustment is over a model's grounding prompts.",
    source="According-to prompting, Tables 1 and 2",
    sql="""select found.dataset, found.model, found.method, found.grounding_prompt,
    replace(found.compared_with, '_', ' ') as compared_with,
    case found.measure when 'quip_difference' then 'whole texts' else 'equal length' end as length,
    found.n_paired, found.base_value, found.mean_value, found.value as difference,
    found.value_ci_low as difference_ci_low, found.value_ci_high as difference_ci_high, found.p_value, found.p_holm
from marts.fct_grounding_comparisons as found
inner join marts.dim_grounding_prompts as prompts on found.grounding_prompt = prompts.grounding_prompt
where found.measure in ('quip_difference', 'same_length_difference') and found.value is not null
order by found.dataset, found.model, compared_with, length desc, prompts.position_in_study, found.method""",
    spec=points_in_rows(
        "model",
        difference_x("difference", "difference of QUIP", 5),
        "grounding_prompt",
        METHODS,
        interval=bounds("difference"),
        mark_at=0,
        side_by_side=True,
        least=340,
        step=46,
    ),
    choose=("compared_with", "length"),
)
