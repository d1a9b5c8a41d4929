with answers as (

    {{ with_share_of_work(ref('int_paraphrase_answers'), 'paraphrase_answers') }}

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
        demonstration_ids,
        {{ scored_columns() }},
        {{ confidence_columns() }},
        single_latency_ms,
        {{ account_columns() }}
    from answers

)

select * from final
