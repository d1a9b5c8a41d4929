"""The headline: the main curve, its numbers, and the leaderboard."""

from __future__ import annotations

from dagster_project.core.report.figure import Column, Figure
from dagster_project.core.report.figures.memory import ACCURACY, BY_POPULARITY, KEY, N

HEADLINE = Figure(
    key="headline",
    section="overview",
    title="The headline in numbers",
    shows="One row per model and method: accuracy with its Wilson 95 % interval, and the correlation of accuracy with "
    "popularity over bins. For methods that retrieve, the row also has adaptive retrieval (thresholds are fitted per "
    "relation on 75 % of the questions and scored on the rest; means over the splits). `adaptive`, `always` and "
    "`never` are scored on questions with popularity and both answers, so `always` can differ a little from the "
    "accuracy beside it.",
    source="PopQA, Figures 4, 7 and 9",
    tables=("fct_accuracy", "fct_popularity_correlation", "dim_models", "dim_methods"),
    sql="""select accuracy.dataset, accuracy.prompt, accuracy.model, accuracy.method, accuracy.n, accuracy.n_correct,
    accuracy.accuracy, accuracy.ci_low, accuracy.ci_high, correlation.pearson_binned,
    adaptive.accuracy_adaptive, adaptive.accuracy_always, adaptive.accuracy_never,
    adaptive.share_retrieved, adaptive.gain, adaptive.gain_ci_low, adaptive.gain_ci_high
from marts.fct_accuracy as accuracy
left join marts.fct_popularity_correlation as correlation using (dataset, prompt, model, method, relation)
left join (
    select found.* from marts.fct_adaptive_accuracy as found
    inner join marts.dim_methods as memory on found.parametric_method = memory.method
    where memory.kind = 'memory' and found.search = 'exact' and found.threshold_scope = 'per_relation'
) as adaptive
    on accuracy.dataset = adaptive.dataset and accuracy.prompt = adaptive.prompt
    and accuracy.model = adaptive.model and accuracy.method = adaptive.retrieval_method
left join marts.dim_models as models on accuracy.model = models.model
left join marts.dim_methods as methods on accuracy.method = methods.method
where accuracy.relation = 'all'
order by accuracy.dataset, accuracy.prompt, models.n_parameters, accuracy.model,
    not methods.is_parametric, accuracy.method""",
    columns=(
        *KEY,
        N,
        ACCURACY,
        Column("pearson_binned", "r, popularity", "signed"),
        Column("accuracy_adaptive", "adaptive", "share"),
        Column("accuracy_always", "always", "share"),
        Column("accuracy_never", "never", "share"),
        Column("share_retrieved", "retrieved", "share"),
        Column("gain", "adaptive gain", "signed", ("gain_ci_low", "gain_ci_high")),
    ),
    kind="table",
)

LEADERBOARD = Figure(
    key="leaderboard",
    section="overview",
    title="Leaderboard",
    shows="Every model and method, or every adaptive pair of methods, ordered by accuracy over all prompts. Methods and "
    "pairs are ranked separately, because pairs are scored on held-out questions with popularity and both answers. "
    "`ceiling` marks a method whose passage was chosen because it contains the answer; it has no rank. "
    "`control` marks a method whose passage was chosen without regard to the question; it has no rank either. This study "
    "cannot tell "
    "neighbours with overlapping intervals apart; the paired comparisons below test some of them. The interval of a "
    "pair is Wilson's at its accuracy and n, and leaves out the uncertainty of the fitted thresholds. The interval of "
    "its gain over the better fixed method includes it.",
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
        Column("gain", "gain", "signed", ("gain_ci_low", "gain_ci_high")),
    ),
    choose=("entries",),
    kind="table",
)

FIGURES = (BY_POPULARITY, HEADLINE, LEADERBOARD)
