with source as (

    select * from {{ source('lake', 'quip_scores') }}
    where {{ is_declared(['dataset', 'model']) }}

),

final as (

    select
        dataset,
        question_id,
        model,
        method,
        prompt,
        text_from,
        n_grams,
        quip,
        span_starts,
        span_ends,
        span_first_grams,
        span_grams
    from source

)

select * from final
