with final as (

    select
        pair_id,
        dataset,
        question_id,
        cluster_id,
        relation,
        subject_popularity as popularity,
        parametric_correct::integer as parametric,
        retrieval_correct::integer as retrieval,
        n_reused,
        parametric_confidence as confidence,
        parametric_tokens,
        parametric_device_seconds,
        retrieval_device_seconds,
        parametric_cost_usd,
        retrieval_cost_usd,
        parametric_latency_ms,
        retrieval_latency_ms
    from {{ ref('int_answer_pairs') }}
    where pair_id is not null and subject_popularity is not null

)

select * from final
