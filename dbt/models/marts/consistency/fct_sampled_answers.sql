with answers as (

    select * from {{ ref('int_sampled_answers') }}

),

final as (

    select
        dataset,
        prompt,
        question_id,
        sample,
        relation,
        question,
        subject_popularity,
        model,
        temperature,
        {{ scored_columns() }},
        single_latency_ms,
        {{ account_columns() }}
    from answers

)

select * from final
