-- The sides of a pair are in alphabetical order. Pairs without a common question keep their row.
with answers as (select * from {{ ref('int_answers') }}),

groups as (

    select distinct
        dataset,
        prompt,
        model,
        method
    from answers

),

compared as (

    select
        one.dataset,
        one.prompt,
        'methods' as comparison,
        one.model as model_a,
        one.method as method_a,
        other.model as model_b,
        other.method as method_b
    from groups as one
    inner join groups as other
        on one.dataset = other.dataset and one.prompt = other.prompt and one.model = other.model
    where one.method < other.method
    union all
    select
        one.dataset,
        one.prompt,
        'models' as comparison,
        one.model as model_a,
        one.method as method_a,
        other.model as model_b,
        other.method as method_b
    from groups as one
    inner join groups as other
        on one.dataset = other.dataset and one.prompt = other.prompt and one.method = other.method
    where one.model < other.model

),

final as (

    select
        compared.*,
        count(b.question_id) as n,
        count(*) filter (where a.is_correct and b.is_correct) as n_both,
        count(*) filter (where a.is_correct and not b.is_correct) as n_a_only,
        count(*) filter (where b.is_correct and not a.is_correct) as n_b_only,
        count(*) filter (where not a.is_correct and not b.is_correct) as n_neither
    from compared
    inner join answers as a
        on
            compared.dataset = a.dataset
            and compared.prompt = a.prompt
            and compared.model_a = a.model
            and compared.method_a = a.method
    left join answers as b
        on
            compared.dataset = b.dataset
            and compared.prompt = b.prompt
            and compared.model_b = b.model
            and compared.method_b = b.method
            and a.question_id = b.question_id
    group by all

)

select * from final
