-- PopQA, Figures 9 and 13: which adaptive pair answers a dataset best, and which single method? Pairs are scored on the
-- questions with popularity and both answers, methods on all questions that they answered. So both are ranked
-- separately, and gain compares a pair with its better method on the same questions. Bounds come last, without a rank.
select
    dataset,
    is_bound,
    is_adaptive,
    rank,
    prompt,
    model,
    method,
    parametric_method,
    retrieval_method,
    search,
    n,
    round(accuracy, 3) as accuracy,
    round(ci_low, 3) as ci_low,
    round(ci_high, 3) as ci_high,
    round(gain, 3) as gain,
    round(gain_ci_low, 3) as gain_ci_low,
    round(gain_ci_high, 3) as gain_ci_high,
    undefined
from {{ ref('fct_leaderboard') }}
order by
    dataset asc, is_bound asc, is_adaptive desc, rank asc nulls last, accuracy desc, prompt asc, model asc, method asc,
    parametric_method asc, retrieval_method asc, search asc
