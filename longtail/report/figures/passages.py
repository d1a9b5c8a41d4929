"""Figures of single passages: the entities that they are about, and examples of their effect on an answer."""

from __future__ import annotations

from longtail.report.figure import Column, Figure, bounds
from longtail.report.figures.memory import BIN_EDGES, N
from longtail.report.figures.retrieval import PAIR
from longtail.report.marks import (
    curves,
    names,
    panels,
    popularity_x,
    quantity,
    series,
    share_y,
)

EXAMPLES_EACH = 3
PASSAGE_CHARACTERS = 700

_EXAMPLES = """with examples as (
    select effects.*, coalesce(passages.text, generated.text) as passage_text,
        passages.collection_source as passage_source, passages.licence as passage_licence,
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
select dataset, prompt, model, parametric_method, retrieval_method,
    coalesce(relation, 'no relation') as relation, question_id, question,
    list_slice(gold_answers, 1, 5) as gold_answers,
    parametric_prediction, retrieval_prediction, passage_title, passage_of, passage_text[1:{characters}] as passage,
    length(passage_text) > {characters} as is_cut, passage_source, passage_licence, subject_popularity
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
    Column("passage_of", "passage is about"),
    Column("subject_popularity", "popularity", "number"),
)


def _examples(key: str, effect: str, title: str, shows: str, source: str) -> Figure:
    sql = _EXAMPLES.format(effect=effect, each=EXAMPLES_EACH, characters=PASSAGE_CHARACTERS)
    capped = (
        f"At most {EXAMPLES_EACH} per model and pair of methods. A hash of the question's id draws them; nobody chose "
        f"them. If the model read several passages, the first is shown. Passages are cut at {PASSAGE_CHARACTERS} "
        "characters. Table `marts.fct_passage_effects` has all of them."
    )
    return Figure(
        key=key,
        section="effects",
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
    title="Whom the passage is about",
    shows="If a passage misled or rescued the model, is it about the question's subject, a namesake, or another "
    "entity? Shares within each bar; the table has the counts.",
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
        Column("passage_of", "passage is about"),
        N,
        Column("share", "share", "share"),
    ),
    spec=panels(
        "effect",
        {
            "mark": {"type": "bar", "height": {"band": 0.66}},
            "encoding": {
                "y": names("model"),
                "x": quantity("share", "share", {"format": "%"}),
                "color": {
                    "field": "passage_of",
                    "type": "nominal",
                    "title": "passage about",
                    "scale": {"domain": ["subject", "namesake", "other", "unknown"]},
                },
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

CONFLICTS = Figure(
    key="conflicts",
    section="retrieval",
    title="Does a passage win over memory?",
    shows="How often a model follows a passage whose right object is replaced by a wrong one, by the popularity of the "
    "subject ({popularity}), where its answer from memory is right and where it is wrong. Bands are 95 % "
    "intervals of whole subjects; bins with fewer than ten questions are left out. Table `marts.fct_conflicts` has "
    "them, all bins together, and bins of the confidence of memory.",
    source="SPEC §11, conflicts",
    tables=("fct_conflicts",),
    sql="""select dataset, prompt, model, 'memory is ' || memory as memory_is, bin_low, bin_high,
    sqrt(bin_low * bin_high) as popularity, n,
    share_passage, share_passage_ci_low, share_passage_ci_high, share_memory, share_memory_ci_low, share_memory_ci_high,
    share_other, n_undecided
from marts.fct_conflicts
where binned_by = 'popularity' and memory <> 'any' and n >= 10
order by dataset, prompt, memory, model, bin""",
    columns=(
        Column("model", "model"),
        Column("memory_is", "memory"),
        *BIN_EDGES,
        N,
        Column("share_passage", "follows", "share", bounds("share_passage")),
        Column("share_memory", "keeps memory", "share", bounds("share_memory")),
        Column("share_other", "says something else", "share"),
        Column("n_undecided", "undecided", "count"),
    ),
    spec=panels(
        "memory_is",
        curves(
            popularity_x(),
            share_y("share_passage", "follows the passage"),
            series("model", "model"),
            interval=bounds("share_passage"),
        ),
        least=300,
    ),
    plot_on="fct_conflicts",
)

FIGURES = (PASSAGE_OF, MISLED, RESCUED, CONFLICTS)
