-- PopQA, Figure 3: how is the popularity of the subjects distributed, in each dataset and in the reference questions?
select
    dataset,
    is_reference,
    n_questions,
    n_missing,
    n_zero,
    bin,
    round(bin_low, 1) as popularity_low,
    round(bin_high, 1) as popularity_high,
    n,
    round(share, 3) as share,
    round(cumulative_share, 3) as cumulative_share
from {{ ref('fct_popularity_distribution') }}
where relation = 'all'
order by is_reference, dataset, bin
