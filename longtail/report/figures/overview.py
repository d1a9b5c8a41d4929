"""The headline: the main curve, its numbers, and the leaderboard."""

from __future__ import annotations

from longtail.report.figure import Column, Figure, bounds
from longtail.report.figures.memory import ACCURACY, BY_POPULARITY, DECLINED, KEY, N
from longtail.warehouse.headline import HEADLINE_SQL

HEADLINE = Figure(
    key="headline",
    leads_to_answers=True,
    section="scores",
    title="The headline in numbers",
    shows="One row per model and method: accuracy with its 95 % interval of whole subjects, and the correlation of "
    "accuracy with popularity over bins. Where a model declined to answer, the row has that share, and the accuracy of "
    "its other answers. For methods that retrieve, the row also has adaptive retrieval (thresholds are fitted per "
    "relation on 75 % of the questions and scored on the rest; means over the splits). `adaptive`, `always` and "
    "`never` are scored on questions with popularity and both answers, so `always` can differ a little from the "
    "accuracy beside it.",
    source="PopQA, Figures 4, 7 and 9",
    tables=(
        "fct_accuracy",
        "fct_popularity_correlation",
        "dim_models",
        "dim_methods",
        "dim_datasets",
        "dim_prompts",
    ),
    sql=HEADLINE_SQL,
    columns=(
        *KEY,
        N,
        ACCURACY,
        *DECLINED,
        Column("pearson_binned", "r, popularity", "signed"),
        Column("accuracy_adaptive", "adaptive", "share"),
        Column("accuracy_always", "always", "share"),
        Column("accuracy_never", "never", "share"),
        Column("share_retrieved", "retrieved", "share"),
        Column("gain", "adaptive gain", "signed", bounds("gain")),
    ),
    kind="table",
)

LEADERBOARD = Figure(
    key="leaderboard",
    section="scores",
    title="Leaderboard",
    shows="Every model and method, or every adaptive pair of methods, ordered by accuracy over all prompts. Methods and "
    "pairs are ranked separately, because pairs are scored on held-out questions with popularity and both answers. "
    "`ceiling` marks a method whose passage was chosen because it contains the answer; it has no rank. "
    "`control` marks a method whose passage was chosen without regard to the question; it has no rank either. This study "
    "cannot tell "
    "neighbours with overlapping intervals apart; the paired comparisons below test some of them. The interval of a "
    "pair takes its accuracy, its n and the design effect of its retrieval method, and leaves "
    "out the uncertainty of the fitted thresholds. The interval of its gain over the better fixed method includes it.",
    source="Longtail's own",
    tables=("fct_leaderboard",),
    sql="""select dataset, if(is_adaptive, 'adaptive pairs', 'methods') as entries,
    case when is_bound then 'ceiling' when is_condition then 'control' else rank::varchar end as place, prompt, model,
    if(is_adaptive, parametric_method || ' or ' || retrieval_method, method) as entry,
    coalesce(retrieval_method, method) as retrieval_method, search, n, accuracy, ci_low, ci_high,
    gain, gain_ci_low, gain_ci_high
from marts.fct_leaderboard
order by dataset, is_adaptive, rank nulls last, accuracy desc, prompt, model, entry, search""",
    columns=(
        KEY[0],
        Column("place", "rank", "count"),
        *KEY[1:3],
        Column("entry", "method"),
        Column("search", "search"),
        N,
        ACCURACY,
        Column("gain", "gain", "signed", bounds("gain")),
    ),
    choose=("entries",),
    kind="table",
)

FIGURES = (BY_POPULARITY, HEADLINE, LEADERBOARD)
