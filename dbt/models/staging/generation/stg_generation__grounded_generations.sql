with source as (

    select * from {{ source('lake', 'grounded_generations') }}
    where {{ is_declared(['dataset', 'model', 'grounding_prompt']) }}

),

final as (

    select
        dataset,
        question_id,
        model,
        method,
        grounding_prompt,
        grounding_kind,
        steps,
        generation,
        answer,
        explanation,
        is_parsed,
        exact_match,
        f1,
        rouge_l,
        {{ account_columns() }},
        {{ generation_key() }} as generation_key
    from source

)

select * from final
