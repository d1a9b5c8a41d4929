-- PopQA, Figures 9 and 13: what answers a dataset best, over all models, methods, prompts and adaptive pairs?
select
    dataset,
    rank,
    prompt,
    model,
    method,
    is_adaptive,
    n,
    round(accuracy, 3) as accuracy,
    round(ci_low, 3) as ci_low,
    round(ci_high, 3) as ci_high,
    undefined
from {{ ref('fct_leaderboard') }}
order by dataset, rank, prompt, model, method
