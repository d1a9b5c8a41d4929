-- PopQA, Figures 9 and 13: what answers a dataset best: which adaptive pair, and which method alone? Pairs are scored
-- on the questions with popularity and both answers, methods on all that they answered: each has places of its own,
-- and gain compares a pair with its better method on the same questions. Bounds (oracle) stand last, without a place.
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
