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
        asked.dataset,
        asked.question_id,
        asked.model,
        asked.method,
        asked.grounding_prompt,
        case when asked.method = base.method then 'null_prompt' else 'no_passage' end as compared_with,
        -- As many 25-grams of both, from the start, as the shorter one has.
        case
            when asked.quip is not null and base.quip is not null then least(asked.n_grams, base.n_grams)
        end as n_shared,
        asked.quip,
        asked.span_first_grams,
        asked.span_grams,
        asked.score,
        base.quip as base_quip,
        base.span_first_grams as base_span_first_grams,
        base.span_grams as base_span_grams,
        base.score as base_score
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
        dataset,
        question_id,
        model,
        method,
        grounding_prompt,
        compared_with,
        case when n_shared is not null then quip end as quip,
        case when n_shared is not null then base_quip end as base_quip,
        {{ quip_of_first('span_first_grams', 'span_grams', 'n_shared') }} as same_length_quip,
        {{ quip_of_first('base_span_first_grams', 'base_span_grams', 'n_shared') }} as base_same_length_quip,
        score,
        base_score
    from paired

)

select * from final
