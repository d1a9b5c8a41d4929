with scores as (select * from {{ ref('int_all_quips') }}),

final as (

    select
        dataset,
        prompt,
        grounding_prompt,
        model,
        method,
        text_from,
        count(*) as n,
        count(quip) as n_quip,
        count(*) - count(quip) as n_undefined,
        coalesce(sum(n_grams), 0)::bigint as total_grams,
        avg(quip) as mean_quip,
        {{ mean_interval('quip', 0, 1) }},
        avg(quip_reference) as mean_quip_reference,
        {{ mean_interval('quip_reference', 0, 1) }}
    from scores
    group by dataset, prompt, grounding_prompt, model, method, text_from

)

select * from final
