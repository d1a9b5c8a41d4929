-- Two texts about a question: with a grounding prompt and without, or with a passage in front and without. QUIP-Scores
-- are null unless both texts have one: texts are compared on the same questions.
with generations as (

    select
        *,
        coalesce(exact_match, f1, rouge_l) as score,
        method = {{ method_of('memory') }} as is_memory
    from {{ ref('int_grounded_generations') }}

),

paired as (

    select
        asked,
        base,
        case when asked.quip is not null and base.quip is not null then least(asked.n_grams, base.n_grams) end as n_grams
    from generations as asked
    inner join generations as base
        on
            asked.dataset = base.dataset
            and asked.question_id = base.question_id
            and asked.model = base.model
            and case
                when asked.method = base.method then asked.grounding_kind <> 'null' and base.grounding_kind = 'null'
                else asked.grounding_prompt = base.grounding_prompt and base.is_memory
            end

),

final as (

    select
        asked.dataset,
        asked.question_id,
        asked.model,
        asked.method,
        asked.grounding_prompt,
        case when asked.method = base.method then 'null_prompt' else 'no_passage' end as compared_with,
        case when n_grams is not null then asked.quip end as quip,
        case when n_grams is not null then base.quip end as base_quip,
        -- As many 25-grams of both, from the start, as the shorter one has.
        {{ quip_of_first('asked', 'n_grams') }} as same_length_quip,
        {{ quip_of_first('base', 'n_grams') }} as base_same_length_quip,
        asked.score,
        base.score as base_score
    from paired

)

select * from final
