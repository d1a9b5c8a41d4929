-- PopQA, section 7.1: below which popularity does each relation want a passage? Infinity: always. The least one:
-- never.
select
    thresholds.model,
    thresholds.parametric_method,
    thresholds.retrieval_method,
    thresholds.relation,
    thresholds.threshold_popularity,
    thresholds.n,
    round(thresholds.accuracy - greatest(thresholds.accuracy_always, thresholds.accuracy_never), 3) as gain_in_sample
from {{ ref('fct_adaptive_thresholds') }} as thresholds
where thresholds.search = 'exact'
order by
    thresholds.model, thresholds.parametric_method, thresholds.retrieval_method,
    thresholds.relation = 'all', thresholds.relation
