with answers as (select * from {{ ref('int_answers') }}),

counted as (

    select
        dataset,
        prompt,
        model,
        method,
        is_correct,
        is_correct_case_sensitive,
        is_correct_normalized,
        is_exact_match,
        count(*) as n
    from answers
    group by all

),

final as (

    select
        *,
        n / (sum(n) over (partition by dataset, prompt, model, method))::double as share
    from counted

)

select * from final
