with answers as (

    {{ with_share_of_work(ref('int_sampled_answers'), 'sampled_answers') }}

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
        demonstration_ids,
        {{ scored_columns() }},
        {{ confidence_columns() }},
        single_latency_ms,
        {{ account_columns() }}
    from answers

)

select * from final
