with grounded as (select * from {{ ref('int_grounded_generations') }}),
quip_scores as (select * from {{ ref('int_quip_scores') }}),

final as (

    select
        dataset,
        question_id,
        prompt,
        null as grounding_prompt,
        model,
        method,
        text_from,
        n_grams,
        quip,
        quip_reference
    from quip_scores
    union all by name
    select
        dataset,
        question_id,
        null as prompt,
        grounding_prompt,
        model,
        method,
        'grounded_generations' as text_from,
        n_grams,
        quip,
        quip_reference
    from grounded

)

select * from final
