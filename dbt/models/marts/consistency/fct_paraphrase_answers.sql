with answers as (

    select * from {{ ref('int_paraphrase_answers') }}

),

final as (

    select
        dataset,
        prompt,
        question_id,
        paraphrase_id,
        relation,
        paraphrase,
        subject_popularity,
        model,
        {{ scored_columns() }},
        single_latency_ms,
        {{ account_columns() }}
    from answers

)

select * from final
