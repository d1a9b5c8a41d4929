-- Atlas, retriever consistency: are the passages of two wordings more alike where the answers are equal?
select
    dataset,
    retriever,
    answer_kind,
    model,
    method,
    prompt,
    measure,
    n_agreeing,
    round(similarity_agreeing, 3) as similarity_agreeing,
    round(similarity_agreeing_low, 3) as agreeing_low,
    round(similarity_agreeing_high, 3) as agreeing_high,
    n_disagreeing,
    round(similarity_disagreeing, 3) as similarity_disagreeing,
    round(similarity_disagreeing_low, 3) as disagreeing_low,
    round(similarity_disagreeing_high, 3) as disagreeing_high,
    round(correlation, 3) as correlation,
    round(correlation_low, 3) as correlation_low,
    round(correlation_high, 3) as correlation_high
from {{ ref('fct_retriever_consistency') }}
where relation = 'all'
order by dataset, retriever, answer_kind, model, method, prompt, measure
