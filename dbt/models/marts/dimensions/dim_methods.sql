with methods as (select * from {{ ref('stg_study__methods') }}),

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
        description,
        background_template,
        background_tokens
    from methods

)

select * from final
