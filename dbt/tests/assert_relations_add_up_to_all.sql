-- The values for all relations together are the sums over the relations and over the answers without a relation.
with unrelated as (

    select
        dataset,
        prompt,
        model,
        method,
        count(*) as n,
        count(*) filter (where is_correct) as n_correct
    from {{ ref('int_answers') }}
    where relation is null
    group by dataset, prompt, model, method

),

parts as (

    select
        dataset,
        prompt,
        model,
        method,
        relation,
        n,
        n_correct
    from {{ ref('fct_accuracy') }}
    union all by name
    select
        *,
        'no relation' as relation
    from unrelated

)

select
    dataset,
    prompt,
    model,
    method
from parts
group by dataset, prompt, model, method
having
    coalesce(sum(n) filter (where relation = 'all'), 0) != coalesce(sum(n) filter (where relation != 'all'), 0)
    or coalesce(sum(n_correct) filter (where relation = 'all'), 0)
    != coalesce(sum(n_correct) filter (where relation != 'all'), 0)
