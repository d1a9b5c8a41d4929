-- ParaRel: which patterns of a relation agree least with its other patterns, and are they wrong more often?
select
    dataset,
    prompt,
    model,
    method,
    relation,
    paraphrase_id,
    pattern,
    n_pairs,
    round(agreement, 3) as agreement,
    round(agreement_low, 3) as agreement_low,
    round(agreement_high, 3) as agreement_high,
    n,
    round(accuracy, 3) as accuracy,
    round(ci_low, 3) as ci_low,
    round(ci_high, 3) as ci_high
from {{ ref('fct_pattern_effects') }}
where is_asked
order by agreement, dataset, prompt, model, method, relation, paraphrase_id
