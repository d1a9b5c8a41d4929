with answers as (

    select * from {{ ref('int_answers_by_relation') }}

),

counted as (

    select
        dataset,
        prompt,
        model,
        method,
        relation,
        count(*) as n,
        count(*) filter (where is_correct) as n_correct
    from answers
    group by dataset, prompt, model, method, relation

),

final as (

    select
        *,
        n_correct / n as accuracy,
        {{ wilson_low('n_correct', 'n') }} as ci_low,
        {{ wilson_high('n_correct', 'n') }} as ci_high
    from counted

)

select * from final
