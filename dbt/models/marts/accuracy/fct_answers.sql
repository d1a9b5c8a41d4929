with answers as (

    {{ with_share_of_work(ref('int_answers'), 'answers') }}

),

final as (

    select
        dataset,
        prompt,
        question_id,
        relation,
        subject_id,
        subject,
        question,
        gold_answers,
        subject_popularity,
        popularity_measure,
        n_popularity_months,
        model,
        method,
        {{ scored_columns() }},
        {{ confidence_columns() }},
        passage_id,
        passage_ids,
        has_answer,
        demonstration_ids,
        demonstration_passage_ids,
        single_latency_ms,
        {{ account_columns() }}
    from answers

)

select * from final
