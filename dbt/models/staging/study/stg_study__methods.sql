with source as (

    select * from {{ source('lake', 'methods') }}

),

final as (

    select
        method,
        kind,
        asks_questions,
        is_parametric,
        is_bound,
        is_condition,
        has_index,
        cuts_last_sentence,
        may_find_nothing,
        is_fixed,
        description,
        background_template,
        background_tokens
    from source

)

select * from final
