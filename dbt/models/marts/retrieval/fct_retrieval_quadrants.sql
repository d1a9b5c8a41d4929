{%- set pair = 'dataset, prompt, model, parametric_method, retrieval_method' -%}
with answer_pairs as (

    select * from {{ ref('int_answer_pairs') }}

),

counted as (

    select
        {{ pair }},
        parametric_correct,
        retrieval_correct,
        count(*) as n,
        count(*) filter (where has_answer) as n_has_answer
    from answer_pairs
    group by {{ pair }}, parametric_correct, retrieval_correct

),

pairs as (

    select
        {{ pair }},
        sum(n)::bigint as n_questions
    from counted
    group by {{ pair }}

),

-- All four quadrants, also those without a question.
quadrants as (

    select
        pairs.*,
        one.correct as parametric_correct,
        other.correct as retrieval_correct
    from pairs
    cross join (values (true), (false)) as one (correct)
    cross join (values (true), (false)) as other (correct)

),

final as (

    select
        quadrants.*,
        coalesce(counted.n, 0) as n,
        {{ rate('coalesce(counted.n, 0)', 'quadrants.n_questions', 'share') }},
        {{ rate('counted.n_has_answer', 'counted.n', 'recall_at_1') }}
    from quadrants
    left join counted using ({{ pair }}, parametric_correct, retrieval_correct)

)

select * from final
