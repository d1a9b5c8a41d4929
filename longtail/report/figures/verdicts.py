"""The verdict on each data set and model, as a table and as dots. It opens the report of a study of several data sets."""

from __future__ import annotations

from longtail.report.figure import Figure, bounds
from longtail.report.marks import SHARE_AXIS, categories, difference_x, quantity, rows_of_points, value_x

DEFAULT_GAIN = (
    "Gains are held out: accuracy if a passage is read only below a threshold, minus that of always or never reading, "
    "whichever is better. Thresholds are fitted on other questions by exact search: on popularity, one for each relation "
    "(one for all where relations are not known); on the best signal, one for all."
)
_DECIDED_BY = ("popularity", "best signal")
_RANKED = """with ranked as (
    select *, max((popularity_gain is not null)::int) over of_dataset as has_gain,
        max((best_signal_auroc is not null)::int) over of_dataset as has_signal,
        max((popularity_auroc is not null)::int) over of_dataset as has_popularity
    from marts.fct_verdicts
    inner join marts.dim_datasets using (dataset)
    window of_dataset as (partition by dataset)
)"""
_KNOWN_FIRST = (
    "has_gain desc, has_signal desc, has_popularity desc, position_in_study, prompt, memory_accuracy desc, model, "
    "retrieval_method"
)
"""Data sets of which more is known stand first, else the order of the study."""

_SYSTEM = "model || if(retrieval_method = 'none', '', ', ' || retrieval_method)"
_SEVERAL = "(select count(distinct dataset) > 1 from ranked)"
_SYSTEM_AND_DATASET = f"{_SYSTEM} || if({_SEVERAL}, chr(10) || dataset, '') as system"


def _words(signal: str, verdict: str) -> str:
    """SQL of a verdict in words: 'gains +2.7', 'gains nothing', 'not known: no passages'."""
    number = f"replace(format(' {{:+.1f}}', 100 * {signal}_gain), '-', '−')"
    return f"{verdict} || if({verdict} in ('gains', 'loses'), {number}, '')"


VERDICTS = Figure(
    key="verdicts",
    title="A verdict for each data set and model",
    shows="Share of right answers from memory, with passages, and in either of the two; how well popularity and the best "
    "signal tell right answers from wrong ones (AUROC; one half says nothing); and, in points, what reading a passage "
    "only below a threshold gains, held out, over always or never reading one. Below each number is its 95 % interval "
    "of whole subjects; `gains` and `loses` are said only where it excludes zero.",
    source="Longtail's own",
    sql=f"""{_RANKED}
select dataset as questions_of, prompt, {_SYSTEM} as model_and_retrieval, n, model, parametric_method,
    retrieval_method, memory_accuracy, memory_ci_low, memory_ci_high,
    passages_accuracy, passages_ci_low, passages_ci_high,
    either_accuracy, either_ci_low, either_ci_high,
    popularity_auroc, popularity_auroc_ci_low, popularity_auroc_ci_high,
    best_signal_auroc, best_signal_auroc_ci_low, best_signal_auroc_ci_high, chosen_signals,
    {_words("popularity", "verdict")} as by_popularity, popularity_gain_ci_low, popularity_gain_ci_high,
    {_words("best_signal", "best_signal_verdict")} as by_best_signal, best_signal_gain_ci_low, best_signal_gain_ci_high,
    popularity_policy, popularity_gain, verdict, best_signal_gain, best_signal_verdict
from ranked
order by {_KNOWN_FIRST}""",  # noqa: S608
    labels={
        "memory_accuracy": "memory",
        "passages_accuracy": "passages",
        "popularity_auroc": "AUROC of popularity",
        "best_signal_auroc": "of the best signal",
        "by_popularity": "deciding by popularity",
        "by_best_signal": "by the best signal",
    },
    hidden=(
        "model",
        "parametric_method",
        "retrieval_method",
        "chosen_signals",
        "popularity_policy",
        "popularity_gain",
        "verdict",
        "best_signal_gain",
        "best_signal_verdict",
    ),
)

_GAINS = """unnest([
        {decided_by: 'popularity', gain: popularity_gain, gain_ci_low: popularity_gain_ci_low,
            gain_ci_high: popularity_gain_ci_high, no_interval: no_gain_interval},
        {decided_by: 'best signal', gain: best_signal_gain, gain_ci_low: best_signal_gain_ci_low,
            gain_ci_high: best_signal_gain_ci_high, no_interval: no_best_signal_gain_interval}
    ], recursive := true)"""
_KNOWN_BY = ("memory", "passages", "either")
ALL_ACCURACIES = Figure(
    key="all_accuracies",
    title="From memory, with passages, and in either, for every data set and model",
    shows="The share of right answers, one line for each data set and model, whatever data set is picked above; `either` "
    "is what a perfect choice between the two would reach. Bars are 95 % intervals of whole subjects.",
    source="Longtail's own",
    sql=f"""{_RANKED},
accuracies as (
    select row_number() over (order by {_KNOWN_FIRST}) as place, prompt, dataset as questions_of, model,
        retrieval_method, n, {_SYSTEM_AND_DATASET}, unnest([
        {{known_by: 'memory', accuracy: memory_accuracy, ci_low: memory_ci_low, ci_high: memory_ci_high}},
        {{known_by: 'passages', accuracy: passages_accuracy, ci_low: passages_ci_low, ci_high: passages_ci_high}},
        {{known_by: 'either', accuracy: either_accuracy, ci_low: either_ci_low, ci_high: either_ci_high}}
    ], recursive := true)
    from ranked
    where {_SEVERAL}
)
select * from accuracies
where accuracy is not null
order by place""",  # noqa: S608
    spec=rows_of_points(
        quantity("accuracy", "accuracy", {**SHARE_AXIS, "grid": True}, {"domain": [0, 1]}),
        "system",
        categories("known_by", None, _KNOWN_BY),
        step=30,
    ),
)

ALL_AUROCS = Figure(
    key="all_aurocs",
    title="What tells right answers from wrong ones, for every data set and model",
    shows="AUROC, from memory: the share of pairs of a right and a wrong answer in which the right one has the higher "
    "signal. A signal that says nothing has one half (dashed). The best signal is chosen on other subjects among those "
    "that the data have; the table names it. One line for each data set and model, whatever data set is picked above; "
    "data sets without popularity or another signal are left out. Bars are 95 % intervals of whole subjects.",
    source="SPEC §11",
    sql=f"""{_RANKED},
models as (
    select distinct on (dataset, prompt, model, parametric_method) *, 'none' as retrieval_method
    from (select * exclude (retrieval_method), row_number() over (order by {_KNOWN_FIRST}) as place from ranked)
    where {_SEVERAL}
    order by place
),
aurocs as (
    select place, prompt, dataset as questions_of, model, n, chosen_signals, {_SYSTEM_AND_DATASET}, unnest([
        {{signal: '{_DECIDED_BY[0]}', auroc: popularity_auroc, auroc_ci_low: popularity_auroc_ci_low,
            auroc_ci_high: popularity_auroc_ci_high}},
        {{signal: '{_DECIDED_BY[1]}', auroc: best_signal_auroc, auroc_ci_low: best_signal_auroc_ci_low,
            auroc_ci_high: best_signal_auroc_ci_high}}
    ], recursive := true)
    from models
)
select * from aurocs
where auroc is not null
order by place, signal desc""",  # noqa: S608
    spec=rows_of_points(
        {**value_x("auroc"), "title": "AUROC"},
        "system",
        categories("signal", "signal", _DECIDED_BY),
        step=36,
        interval=bounds("auroc"),
        side_by_side=True,
        mark_at=0.5,
    ),
)

GAIN = Figure(
    key="adaptive_gain",
    title="What deciding when to retrieve gains",
    shows=f"{DEFAULT_GAIN} One line for each data set, model and retrieval method, whatever data set is picked "
    "above. Bars are 95 % intervals of whole subjects; the table says why there is none. Left of the dashed line, "
    "deciding loses. The figure `Adaptive retrieval against always and never` has other searches.",
    source="SPEC §11; PopQA, section 6.2",
    sql=f"""{_RANKED},
gains as (
    select row_number() over (order by {_KNOWN_FIRST}) as place, prompt, dataset as questions_of, model,
        parametric_method, retrieval_method, n, {_SYSTEM_AND_DATASET}, {_GAINS}
    from ranked
)
select * from gains
where gain is not null
order by place, decided_by desc""",  # noqa: S608
    spec=rows_of_points(
        difference_x("gain", "held-out gain", 5),
        "system",
        categories("decided_by", "decided by", _DECIDED_BY),
        step=36,
        interval=bounds("gain"),
        side_by_side=True,
        mark_at=0,
    ),
    choose=("parametric_method",),
)
