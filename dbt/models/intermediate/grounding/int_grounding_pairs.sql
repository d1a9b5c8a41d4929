-- Both QUIP-Scores are null unless both are defined: prompts are compared on the same questions.
with generations as (

    select
        *,
        coalesce(exact_match, f1, rouge_l) as score
    from {{ ref('int_grounded_generations') }}

),

final as (

    select
        asked.dataset,
        asked.question_id,
        asked.model,
        asked.method,
        asked.grounding_prompt,
        case when plain.quip is not null then asked.quip end as quip,
        case when asked.quip is not null then plain.quip end as null_quip,
        asked.score,
        plain.score as null_score
    from generations as asked
    inner join generations as plain
        on
            asked.dataset = plain.dataset
            and asked.question_id = plain.question_id
            and asked.model = plain.model
            and asked.method = plain.method
    where asked.grounding_kind <> 'null' and plain.grounding_kind = 'null'

)

select * from final
