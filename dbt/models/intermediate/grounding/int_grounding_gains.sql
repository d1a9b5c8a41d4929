with pairs as (

    select * from {{ ref('int_grounding_pairs') }}

),

final as (

    select
        dataset,
        model,
        method,
        grounding_prompt,
        count(quip) as n_paired,
        avg(null_quip) as null_quip,
        -- Ratio of macro means (SPEC §9), undefined where nothing is quoted under the null prompt.
        avg(quip) / nullif(avg(null_quip), 0) as quip_ratio,
        avg(quip) - avg(null_quip) as quip_difference,
        count(score - null_score) as n_scores_paired,
        avg(score - null_score) as score_difference
    from pairs
    group by dataset, model, method, grounding_prompt

)

select * from final
