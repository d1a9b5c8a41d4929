with scores as (select * from {{ ref('int_quip_scores') }}),

final as (

    select
        dataset,
        prompt,
        question_id,
        relation,
        model,
        method,
        text_from,
        n_grams,
        quip,
        quip_reference,
        len(quotes)::integer as n_quotes,
        raw_text,
        span_starts,
        span_ends,
        quotes
    from scores

)

select * from final
