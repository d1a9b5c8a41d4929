-- One row per pair and search, with thresholds per relation. Only fct_adaptive_accuracy has one threshold for all.
with adaptive_accuracy as (

    select * from {{ ref('fct_adaptive_accuracy') }}
    where threshold_scope = 'per_relation'

),

methods as (select * from {{ ref('dim_methods') }}),

entries as (

    select
        dataset,
        prompt,
        model,
        method,
        false as is_adaptive,
        n,
        n_subjects,
        accuracy,
        ci_low,
        ci_high
    from {{ ref('fct_accuracy') }}
    where relation = 'all'
    union all by name
    select
        dataset,
        prompt,
        model,
        'adaptive' as method,
        parametric_method,
        retrieval_method,
        search,
        true as is_adaptive,
        n_questions as n,
        accuracy_adaptive as accuracy,
        gain,
        gain_ci_low,
        gain_ci_high
    from adaptive_accuracy

),

marked as (

    select
        entries.*,
        methods.is_bound,
        methods.is_condition
    from entries
    inner join methods on coalesce(entries.retrieval_method, entries.method) = methods.method

),

-- Methods and pairs are ranked separately, because they are scored on different questions. Accuracies are rounded,
-- because another order of summation must not change a rank.
final as (

    select
        marked.*,
        datasets.n_questions,
        case
            when marked.accuracy is not null and not (marked.is_bound or marked.is_condition) then rank() over (
                partition by marked.dataset, marked.is_adaptive, marked.is_bound, marked.is_condition
                order by round(marked.accuracy, 12) desc nulls last
            )
        end as rank,
        case when marked.accuracy is null then 'no test questions' end as undefined
    from marked
    left join {{ ref('dim_datasets') }} as datasets on marked.dataset = datasets.dataset

)

select * from final
