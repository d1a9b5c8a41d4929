"""The headline, and the leaderboard."""

from __future__ import annotations

from dagster_project.core.report.figure import Column, Figure
from dagster_project.core.report.figures.memory import ACCURACY, KEY, N

HEADLINE = Figure(
    key="headline",
    section="overview",
    title="The headline in numbers",
    shows="One row a model and method: accuracy with its Wilson 95 % interval; the correlation of accuracy with "
    "popularity over bins; and, for methods that retrieve, what adaptive retrieval makes of it (thresholds fitted "
    "per relation on 75 % of the questions, scored on the rest, means over the splits). Adaptive, always and never "
    "are scored on questions with popularity and both answers, so `always` can differ a little from the accuracy "
    "beside it.",
    source="PopQA, Figures 4, 7 and 9",
    tables=("fct_accuracy", "fct_popularity_correlation", "dim_models", "dim_methods"),
    sql="""select accuracy.dataset, accuracy.prompt, accuracy.model, accuracy.method, accuracy.n, accuracy.n_correct,
    accuracy.accuracy, accuracy.ci_low, accuracy.ci_high, correlation.pearson_binned,
    adaptive.accuracy_adaptive, adaptive.accuracy_always, adaptive.accuracy_never,
    adaptive.share_retrieved, adaptive.gain, adaptive.gain_ci_low, adaptive.gain_ci_high
from marts.fct_accuracy as accuracy
left join marts.fct_popularity_correlation as correlation using (dataset, prompt, model, method, relation)
left join marts.fct_adaptive_accuracy as adaptive
    on accuracy.dataset = adaptive.dataset and accuracy.prompt = adaptive.prompt
    and accuracy.model = adaptive.model and accuracy.method = adaptive.retrieval_method
    and adaptive.parametric_method = 'closed_book'
    and adaptive.search = 'exact' and adaptive.threshold_scope = 'per_relation'
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
    shows="Every model and method, and every adaptive pair, by accuracy, with n and interval. Neighbours whose "
    "intervals overlap are not told apart by this study; the paired comparisons below test some of them. Adaptive "
    "rows: means over held-out splits, carried to all questions (without popularity: the better fixed method); their "
    "interval is Wilson's at that accuracy and n, and knows nothing of the fitting. The best of several searches is "
    "picked after the fact: see the gain's interval before naming a winner.",
    source="Longtail's own",
    tables=("fct_leaderboard",),
    sql="""select dataset, rank, prompt, model,
    if(is_adaptive, 'adaptive: ' || parametric_method || ' or ' || retrieval_method, method) as entry, retrieval_method,
    if(is_adaptive, if(threshold_scope = 'all', 'one threshold', 'per relation') || ', ' || search, null) as thresholds,
    n, accuracy, ci_low, ci_high
from marts.fct_leaderboard
order by dataset, rank nulls last, prompt, model, entry, thresholds""",
    columns=(
        KEY[0],
        Column("rank", "rank", "count"),
        *KEY[1:3],
        Column("entry", "method"),
        Column("thresholds", "thresholds"),
        N,
        ACCURACY,
    ),
    kind="table",
)

FIGURES = (HEADLINE, LEADERBOARD)
