with comparisons as (

    select * from {{ ref('int_method_comparisons') }}

),

tested as (

    select * from {{ ref('stg_study__method_comparisons') }}

),

joined as (

    select
        comparisons.*,
        (comparisons.n_both + comparisons.n_a_only) / nullif(comparisons.n, 0)::double as accuracy_a,
        (comparisons.n_both + comparisons.n_b_only) / nullif(comparisons.n, 0)::double as accuracy_b,
        (comparisons.n_a_only - comparisons.n_b_only) / nullif(comparisons.n, 0)::double as difference,
        tested.difference_low as ci_low,
        tested.difference_high as ci_high,
        tested.p_value
    from comparisons
    -- Also by the counts that the test uses: a test of other counts does not belong to this row.
    left join tested
        using (dataset, prompt, comparison, model_a, method_a, model_b, method_b, n, n_a_only, n_b_only)

),

-- Holm: the k-th smallest of m p values is multiplied by m - k + 1, and is never below the one before it. Ties share
-- the greatest value, because their order is arbitrary.
stepped as (

    select
        *,
        least(1.0, p_value * (
            count(p_value) over (partition by dataset)
            - row_number() over (partition by dataset order by p_value nulls last) + 1
        )) as p_stepped
    from joined

),

final as (

    select
        * exclude (p_stepped),
        case
            when p_value is not null
                then max(p_stepped) over (partition by dataset order by p_value nulls last)  -- ties included
        end as p_holm,
        case
            when n = 0 then 'no question in common'
            when p_value is null then 'not computed'
        end as undefined
    from stepped

)

select * from final
