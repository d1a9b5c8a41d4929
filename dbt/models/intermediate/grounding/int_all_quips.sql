with grounded as (select * from {{ ref('int_grounded_generations') }}),
quip_scores as (select * from {{ ref('int_quip_scores') }}),

all_quips as (

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

),

final as (

    select
        all_quips.*,
        questions.cluster_id
    from all_quips
    left join {{ ref('int_questions') }} as questions using (dataset, question_id)

)

select * from final
