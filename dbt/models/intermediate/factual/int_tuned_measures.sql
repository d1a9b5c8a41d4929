{%- set fact = 'tuned_model, step, split, relation, question_id' -%}
-- As in int_fact_measures: sums over facts. Pairs leave out patterns whose article does not fit.
with answers as (

    select
        answers.*,
        questions.cluster_id,
        {{ is_fitting_article('patterns.article', 'questions.objects[1]') }} as is_fitting
    from {{ ref('stg_generation__tuned_answers') }} as answers
    inner join {{ ref('int_questions') }} as questions using (dataset, question_id)
    inner join {{ ref('stg_questions__patterns') }} as patterns
        on
            answers.dataset = patterns.dataset
            and answers.paraphrase_id = patterns.paraphrase_id
            and answers.relation = patterns.relation

),

counted as (

    select
        *,
        if(is_fitting, count(*) over (partition by {{ fact }}, is_fitting) - 1, 0) as n_pairs,
        if(is_fitting, count(*) over (partition by {{ fact }}, is_fitting, prediction) - 1, 0) as n_equal
    from answers

),

facts as (

    select
        {{ fact }},
        any_value(cluster_id) as cluster_id,
        arg_min(is_correct, paraphrase_id)::int as n_correct,
        sum(n_pairs) as n_pairs,
        sum(n_equal) as n_equal
    from counted
    group by {{ fact }}

),

final as (

    select
        {{ fact }},
        cluster_id,
        'accuracy' as measure,
        n_correct::double as numerator,
        1::double as denominator
    from facts
    union all
    select
        {{ fact }},
        cluster_id,
        'consistency' as measure,
        n_equal::double as numerator,
        n_pairs::double as denominator
    from facts

)

select * from final
