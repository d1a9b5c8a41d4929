with comparisons as (select * from {{ ref('int_method_comparisons') }}),
tested as (select * from {{ ref('int_method_tests') }}),

joined as (

    select
        comparisons.* exclude (subjects),  -- noqa: RF02
        (comparisons.n_both + comparisons.n_a_only) / nullif(comparisons.n, 0)::double as accuracy_a,
        (comparisons.n_both + comparisons.n_b_only) / nullif(comparisons.n, 0)::double as accuracy_b,
        (comparisons.n_a_only - comparisons.n_b_only) / nullif(comparisons.n, 0)::double as difference,
        tested.difference_low as ci_low,
        tested.difference_high as ci_high,
        tested.no_interval,
        tested.p_value,
        tested.p_mcnemar
    from comparisons
    -- Also by the counts that the test uses: a test of other counts does not belong to this row.
    left join tested
        using (dataset, prompt, comparison, model_a, method_a, model_b, method_b, n, n_subjects, n_a_only, n_b_only)

),

stepped as (

    select
        *,
        {{ holm_stepped('p_value', 'dataset') }} as p_stepped
    from joined

),

final as (

    select
        * exclude (p_stepped, no_interval),
        {{ holm('p_value', 'p_stepped', 'dataset') }} as p_holm,
        case
            when n = 0 then 'no question in common'
            when p_value is null then 'not computed'
        end as undefined,
        coalesce(undefined, no_interval) as no_interval
    from stepped

)

select * from final
