with scores as (

    select * from {{ ref('int_quip_scores') }}

),

final as (

    select
        dataset,
        prompt,
        model,
        method,
        text_from,
        count(*) as n,
        count(quip) as n_quip,
        count(*) - count(quip) as n_undefined,
        sum(n_grams)::bigint as total_grams,
        avg(quip) as mean_quip,
        {{ mean_interval('quip', 0, 1) }}
    from scores
    group by dataset, prompt, model, method, text_from

)

select * from final
