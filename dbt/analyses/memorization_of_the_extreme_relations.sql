-- PopQA, Figure 6: the curves of the relations whose accuracy from memory correlates most and least with popularity.
-- Bins with fewer than five rows are left out, as in the paper's plots of single relations.
with ranked as (

    select
        dataset,
        prompt,
        model,
        method,
        relation,
        pearson_binned,
        row_number() over (strongest) as from_the_top,
        row_number() over (weakest) as from_the_bottom
    from {{ ref('fct_popularity_correlation') }}
    where
        method in (
            select methods.method from {{ ref('dim_methods') }} as methods
            where methods.kind = 'memory'
        )
        and relation != 'all'
        and pearson_binned is not null
    window
        strongest as (partition by dataset, prompt, model, method order by pearson_binned desc, relation asc),
        weakest as (partition by dataset, prompt, model, method order by pearson_binned, relation)

)

select
    ranked.dataset,
    ranked.prompt,
    ranked.model,
    if(ranked.from_the_top = 1, 'strongest', 'weakest') as link,
    ranked.relation,
    round(ranked.pearson_binned, 3) as pearson_binned,
    curve.bin,
    round(curve.bin_low) as popularity_low,
    curve.n,
    round(curve.accuracy, 3) as accuracy,
    round(curve.ci_low, 3) as ci_low,
    round(curve.ci_high, 3) as ci_high
from ranked
inner join {{ ref('fct_accuracy_by_popularity') }} as curve using (dataset, prompt, model, method, relation)
where least(ranked.from_the_top, ranked.from_the_bottom) = 1 and curve.n >= 5
order by ranked.dataset, ranked.prompt, ranked.model, link, curve.bin
