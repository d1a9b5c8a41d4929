{%- set n_right = '(marked.accuracy * marked.n)' -%}
-- One row per pair and search, with thresholds per relation. Only fct_adaptive_accuracy has one threshold for all.
with adaptive_accuracy as (select * from {{ ref('fct_adaptive_accuracy') }} where threshold_scope = 'per_relation'),
accuracies as (select * from {{ ref('fct_accuracy') }} where relation = 'all'),
methods as (select * from {{ ref('dim_methods') }}),

-- A mix of two methods has the design effect of its retrieval method's answers.
entries as (

    select
        dataset,
        prompt,
        model,
        method,
        false as is_adaptive,
        n,
        n_subjects,
        deff,
        accuracy
    from accuracies
    union all by name
    select
        adaptive_accuracy.dataset,
        adaptive_accuracy.prompt,
        adaptive_accuracy.model,
        'adaptive' as method,
        adaptive_accuracy.parametric_method,
        adaptive_accuracy.retrieval_method,
        adaptive_accuracy.search,
        true as is_adaptive,
        adaptive_accuracy.n_questions as n,
        accuracies.n_subjects,
        accuracies.deff,
        adaptive_accuracy.accuracy_adaptive as accuracy,
        adaptive_accuracy.gain,
        adaptive_accuracy.gain_ci_low,
        adaptive_accuracy.gain_ci_high
    from adaptive_accuracy
    left join accuracies
        on
            adaptive_accuracy.dataset = accuracies.dataset
            and adaptive_accuracy.prompt = accuracies.prompt
            and adaptive_accuracy.model = accuracies.model
            and adaptive_accuracy.retrieval_method = accuracies.method

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
        {{ wilson_end(n_right, 'marked.n', 'marked.n_subjects', 'marked.deff', '-') }} as ci_low,
        {{ wilson_end(n_right, 'marked.n', 'marked.n_subjects', 'marked.deff', '+') }} as ci_high,
        case when marked.accuracy is null then 'no test questions' end as undefined
    from marked
    left join {{ ref('dim_datasets') }} as datasets using (dataset)

)

select * from final
