"""Figures of retrieval: where passages help and hurt, whom they are about, and methods compared on the same questions."""

from __future__ import annotations

from longtail.report.figure import Figure, bounds
from longtail.report.figures.memory import FEWEST, GEOMETRIC_MEAN, INTERVAL, SYSTEM
from longtail.report.marks import (
    ACCURACY_Y,
    METHODS,
    MODELS,
    categories,
    cells,
    curves,
    curves_in_panels,
    difference_axis,
    difference_x,
    each_model_and_dataset,
    names,
    panels,
    points,
    popularity_x,
    quantity,
    series,
    share_y,
    single,
)

BY_METHOD = Figure(
    key="accuracy_by_method",
    leads_to_answers=True,
    title="Accuracy with and without retrieval",
    shows="Share of right answers among the questions that the method answered (n), by model and method. Bars are 95 % "
    "intervals of whole subjects. The passage of an upper bound is chosen because it contains the answer, and "
    "questions without such a passage are left out: it is no retriever.",
    source="PopQA, Figures 7, 13 and 14",
    sql="""select dataset, prompt, model, method, n, n_correct, accuracy, ci_low, ci_high
from marts.fct_accuracy
where relation = 'all'
order by dataset, prompt, model, method""",
    spec=single(points(names("model"), ACCURACY_Y, METHODS, side_by_side=True, size=90), height=300),
)

RELATIVE = Figure(
    key="accuracy_by_relative_popularity",
    title="Accuracy against relative popularity",
    shows="Accuracy by popularity relative to the other questions of the relation: log popularity, standardised "
    f"within the relation, in bins of half a standard deviation. {INTERVAL} Bins under {FEWEST} questions are left out.",
    source="PopQA, Figure 8",
    sql=f"""select dataset, prompt, model, method, z_low, z_high, (z_low + z_high) / 2 as z, n, accuracy, ci_low, ci_high
from marts.fct_accuracy_by_relative_popularity
where relation = 'all' and n >= {FEWEST}
order by dataset, prompt, model, method, z_low""",  # noqa: S608
    spec=curves_in_panels(
        "model",
        quantity(
            "z",
            "relative popularity",
            {"format": "+~g", "tickCount": 7},
            {"zero": False, "nice": False, "padding": 6},
        ),
        ACCURACY_Y,
        METHODS,
        least=220,
    ),
)

QUADRANTS = Figure(
    key="retrieval_quadrants",
    leads_to_answers=True,
    title="Right or wrong, without and with a passage",
    shows="Share of questions in each of the four cases; in brackets, the share of them whose passage contains a gold "
    "answer (recall@1), where the passages are known. Top right: misled, which means right from memory and wrong with "
    "the passage. Bottom left: rescued. The table has 95 % intervals of whole subjects.",
    source="PopQA, Table 1",
    sql="""select dataset, prompt, model, parametric_method, retrieval_method,
    if(parametric_correct, 'memory right', 'memory wrong') as memory,
    if(retrieval_correct, 'retrieval right', 'retrieval wrong') as retrieval,
    case when retrieval_correct then if(parametric_correct, 'both right', 'rescued')
        else if(parametric_correct, 'misled', 'neither right') end as outcome,
    n, share, share_ci_low, share_ci_high, n_known, recall_at_1, recall_at_1_ci_low, recall_at_1_ci_high,
    format('{:.0f} % ({})', 100 * share, coalesce(format('{:.2f}', recall_at_1), '–')) as shown
from marts.fct_retrieval_quadrants
order by dataset, prompt, model, retrieval_method, memory, retrieval""",
    labels={"memory": "from memory", "retrieval": "with retrieval"},
    hidden=("outcome",),
    spec=panels(
        "model",
        cells(names("retrieval"), names("memory"), "share", title="share of questions", shown="shown"),
        least=210,
        rows="memory",
        step=58,
    ),
    choose=("parametric_method", "retrieval_method"),
)

_EFFECT_Y = quantity("difference", "change in accuracy (points)", difference_axis(5))
_EFFECT = curves(
    popularity_x(title=None), _EFFECT_Y, series("retrieval_method", "retrieval", of="method"), mark_at=0
)
_HURTS = {
    "transform": [{"filter": "datum.effect === 'hurts'"}],
    "mark": {"type": "text", "text": "hurts", "dy": 14},
    "encoding": {"y": _EFFECT_Y},
}

EFFECT = Figure(
    key="retrieval_effect_by_popularity",
    title="Where retrieval helps and hurts",
    shows="Accuracy with retrieval minus accuracy from memory, on the same questions, in each tenth of a data set's "
    "questions by popularity. Above the dashed line retrieval helps, below it retrieval hurts; `hurts` stands "
    "only where the whole interval is below. One panel per model and data set, whatever data set is picked "
    "above. Bands are 95 % intervals of whole subjects; a tenth in which fewer than 20 subjects, or fewer "
    "than 10 questions, decide has none. `oracle` shows a passage, or the fact itself, because it holds the "
    "answer: an upper bound. {without_popularity}Where relations differ, tenths hold other relations too: the "
    "table `marts.fct_retrieval_effect_by_popularity` has each relation.",
    source="SPEC §12, where retrieval helps and hurts",
    sql=f"""select prompt, model, parametric_method, retrieval_method, dataset as questions_of, {SYSTEM} as system,
    bin_low, bin_high, {GEOMETRIC_MEAN}, n, parametric_accuracy, retrieval_accuracy, difference,
    ci_low, ci_high, effect, no_interval
from marts.fct_retrieval_effect_by_popularity
where relation = 'all' and binning = 'deciles'
order by prompt, model, questions_of, parametric_method, retrieval_method, bin""",  # noqa: S608
    labels={"difference": "change"},
    spec=each_model_and_dataset({**_EFFECT, "layer": [*_EFFECT["layer"], _HURTS]}, least=220),
    choose=("parametric_method",),
)

RECALL = Figure(
    key="retrieval_recall",
    title="How often the passage contains the answer",
    shows="Share of questions whose first passage, or one of whose first five passages, contains a gold answer as a "
    "token sequence. A question without a passage counts as a miss. The table has 95 % intervals of whole subjects.",
    source="PopQA, section 5.2",
    sql="""select dataset, retriever, relation, n, recall_at_1, recall_at_1_ci_low, recall_at_1_ci_high,
    recall_at_5, recall_at_5_ci_low, recall_at_5_ci_high
from marts.fct_retrieval_recall
order by dataset, retriever, relation""",
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
    ),
)

_THIRDS = ("least popular", "middle", "most popular")
RECALL_BY_POPULARITY = Figure(
    key="retrieval_recall_by_popularity",
    title="Recall in the long tail",
    shows="Share of questions whose first passage contains a gold answer, for three equal parts of the questions by the "
    "popularity of their subject. A question without a passage counts as a miss. Bars are 95 % intervals of whole "
    "subjects. The table also has the first five passages.",
    source="PopQA, section 5.2",
    sql=f"""select dataset, retriever, ['{"', '".join(_THIRDS)}'][third] as part, popularity_low, popularity_high, n,
    recall_at_1, recall_at_1_ci_low, recall_at_1_ci_high, recall_at_5, recall_at_5_ci_low, recall_at_5_ci_high
from marts.fct_retrieval_recall_by_popularity_third
order by dataset, retriever, third""",  # noqa: S608
    spec=single(
        points(
            names("part"),
            share_y("recall_at_1", "recall@1"),
            series("retriever", "retriever"),
            interval=bounds("recall_at_1"),
            side_by_side=True,
            size=90,
        ),
        height=300,
    ),
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


def _examples(key: str, effect: str, title: str, shows: str, source: str) -> Figure:
    sql = _EXAMPLES.format(effect=effect, each=EXAMPLES_EACH, characters=PASSAGE_CHARACTERS)
    capped = (
        f"At most {EXAMPLES_EACH} per model and pair of methods. A hash of the question's id draws them; nobody chose "
        f"them. If the model read several passages, the first is shown. Passages are cut at {PASSAGE_CHARACTERS} "
        "characters. Table `marts.fct_passage_effects` has all of them."
    )
    return Figure(
        key=key,
        title=title,
        shows=f"{shows} {capped}",
        source=source,
        sql=sql,
        hidden=("question_id",),
        choose=("model", "parametric_method", "retrieval_method"),
        cards="examples",
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
    title="Whom the passage is about",
    shows="If a passage misled or rescued the model, is it about the question's subject, a namesake, or another "
    "entity? Shares within each bar; the table has the counts.",
    source="PopQA, appendix C.3",
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
    ),
    choose=("parametric_method", "retrieval_method"),
)

CONFLICTS = Figure(
    key="conflicts",
    title="Does a passage win over memory?",
    shows="How often a model follows a passage whose right object is replaced by a wrong one, by the popularity of the "
    "subject ({popularity}), where its answer from memory is right and where it is wrong. Bands are 95 % "
    "intervals of whole subjects; bins with fewer than ten questions are left out. Table `marts.fct_conflicts` has "
    "them, all bins together, and bins of the confidence of memory.",
    source="SPEC §11, conflicts",
    sql="""select dataset, prompt, model, 'memory is ' || memory as memory_is, bin_low, bin_high,
    sqrt(bin_low * bin_high) as popularity, n,
    share_passage, share_passage_ci_low, share_passage_ci_high, share_memory, share_memory_ci_low, share_memory_ci_high,
    share_other, n_undecided
from marts.fct_conflicts
where binned_by = 'popularity' and memory <> 'any' and n >= 10
order by dataset, prompt, memory, model, bin""",
    spec=curves_in_panels(
        "memory_is",
        popularity_x(),
        share_y("share_passage", "follows the passage"),
        MODELS,
        interval=bounds("share_passage"),
        least=300,
    ),
)


_SIGNIFICANCES = ["p < 0.05", "not significant"]
COMPARISON = Figure(
    key="paired_comparisons",
    title="Methods and models, compared on the same questions",
    shows="Difference in accuracy between A and B on the questions that both answered, with a bootstrap 95 % interval "
    "(10,000 resamples of subjects). The p value is from random changes of the signs of whole subjects' differences, "
    "with Holm's adjustment within the dataset.",
    source="Longtail's own; compares the points of PopQA, Figure 7",
    sql=f"""select dataset, prompt, comparison, if(comparison = 'methods', model_a, method_a) as within,
    model_a, method_a, model_b, method_b,
    if(comparison = 'methods', method_a || ' − ' || method_b, model_a || ' − ' || model_b) as pair,
    n, difference, ci_low, ci_high, n_a_only, n_b_only, p_value, p_holm, no_interval,
    if(p_holm < 0.05, '{_SIGNIFICANCES[0]}', '{_SIGNIFICANCES[1]}') as significance
from marts.fct_method_comparisons
order by dataset, prompt, comparison, within, difference desc""",  # noqa: S608
    hidden=("model_a", "method_a", "model_b", "method_b"),
    spec=single(
        points(
            difference_x("difference", "difference in accuracy, A − B", 8),
            names("pair", labelLimit=300),
            categories("significance", "after Holm", _SIGNIFICANCES),
            mark_at=0,
        ),
        rows="pair",
        step=24,
    ),
    choose=("comparison", "within"),
)
