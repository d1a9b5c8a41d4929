with accuracy as (

    select * from {{ ref('fct_accuracy') }}
    where relation = 'all'

),

adaptive_accuracy as (

    select * from {{ ref('fct_adaptive_accuracy') }}

),

datasets as (

    select * from {{ ref('dim_datasets') }}

),

entries as (

    select
        dataset,
        prompt,
        model,
        method,
        null as parametric_method,
        null as retrieval_method,
        null as search,
        null as threshold_scope,
        n,
        accuracy,
        false as is_adaptive
    from accuracy
    union all
    select
        dataset,
        prompt,
        model,
        'adaptive' as method,
        parametric_method,
        retrieval_method,
        search,
        threshold_scope,
        n_questions + n_missing_popularity as n,
        accuracy_overall as accuracy,
        true as is_adaptive
    from adaptive_accuracy

),

-- Rounded: what sums in another order differ by is no better place.
final as (

    select
        entries.*,
        datasets.n_questions,
        case
            when entries.accuracy is not null then rank() over (
                partition by entries.dataset
                order by round(entries.accuracy, 12) desc nulls last
            )
        end as rank,
        {{ wilson_low('(entries.accuracy * entries.n)', 'entries.n') }} as ci_low,
        {{ wilson_high('(entries.accuracy * entries.n)', 'entries.n') }} as ci_high,
        case when entries.accuracy is null then 'no test questions' end as undefined
    from entries
    left join datasets on entries.dataset = datasets.dataset

)

select * from final
