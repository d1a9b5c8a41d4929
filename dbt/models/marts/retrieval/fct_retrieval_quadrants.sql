{%- set pair = 'dataset, prompt, model, parametric_method, retrieval_method' -%}
{%- set known = 'answer_pairs.first_has_answer is not null and answer_pairs.has_answer is not null' -%}
{%- set quadrant = pair ~ ', parametric_correct, retrieval_correct' -%}
with answer_pairs as (select * from {{ ref('int_answer_pairs') }}),

read_passages as (

    select * rename (method as retrieval_method) from {{ ref('int_answer_passages') }}

),

counted as (

    select
        {{ quadrant }},
        count(*) as n,
        count(*) filter (where {{ known }}) as n_known,
        count(*) filter (where {{ known }} and answer_pairs.first_has_answer) as n_first_has_answer,
        count(*) filter (where {{ known }} and answer_pairs.has_answer) as n_has_answer,
        count(*) filter (where read_passages.passage_of = 'subject') as n_passage_of_subject,
        count(*) filter (where read_passages.passage_of = 'namesake') as n_passage_of_namesake,
        count(*) filter (where read_passages.passage_of = 'other') as n_passage_of_other
    from answer_pairs
    left join read_passages using (dataset, prompt, model, retrieval_method, question_id)
    group by {{ quadrant }}

),

-- All four quadrants, including those without a question.
quadrants as (

    select
        {{ pair }},
        one.correct as parametric_correct,
        other.correct as retrieval_correct,
        sum(counted.n)::bigint as n_questions
    from counted
    cross join (values (true), (false)) as one (correct)
    cross join (values (true), (false)) as other (correct)
    group by {{ pair }}, one.correct, other.correct

),

final as (

    select
        quadrants.*,
        coalesce(counted.n, 0) as n,
        {{ rate('coalesce(counted.n, 0)', 'quadrants.n_questions', 'share') }},
        coalesce(counted.n_known, 0) as n_known,
        {{ rate('counted.n_first_has_answer', 'counted.n_known', 'recall_at_1') }},
        {{ rate('counted.n_has_answer', 'counted.n_known', 'recall_read') }},
        coalesce(counted.n_passage_of_subject, 0) as n_passage_of_subject,
        coalesce(counted.n_passage_of_namesake, 0) as n_passage_of_namesake,
        coalesce(counted.n_passage_of_other, 0) as n_passage_of_other
    from quadrants
    left join counted using ({{ quadrant }})

)

select * from final
