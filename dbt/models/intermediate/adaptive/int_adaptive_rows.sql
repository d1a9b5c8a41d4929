with answer_pairs as (select * from {{ ref('int_answer_pairs') }}),
method_pairs as (select * from {{ ref('int_method_pairs') }}),

final as (

    select
        method_pairs.pair_id,
        answer_pairs.dataset,
        answer_pairs.question_id,
        answer_pairs.relation,
        answer_pairs.subject_popularity as popularity,
        answer_pairs.parametric_correct::integer as parametric,
        answer_pairs.retrieval_correct::integer as retrieval,
        answer_pairs.n_reused,
        answer_pairs.parametric_confidence as confidence,
        answer_pairs.parametric_tokens,
        answer_pairs.parametric_device_seconds,
        answer_pairs.retrieval_device_seconds,
        answer_pairs.parametric_cost_usd,
        answer_pairs.retrieval_cost_usd,
        answer_pairs.parametric_latency_ms,
        answer_pairs.retrieval_latency_ms
    from answer_pairs
    inner join method_pairs
        on
            answer_pairs.dataset = method_pairs.dataset
            and answer_pairs.prompt = method_pairs.prompt
            and answer_pairs.model = method_pairs.model
            and answer_pairs.parametric_method = method_pairs.parametric_method
            and answer_pairs.retrieval_method = method_pairs.retrieval_method
    where answer_pairs.subject_popularity is not null

)

select * from final
