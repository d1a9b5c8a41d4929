{%- set pair = 'dataset, prompt, model, parametric_method, retrieval_method' -%}
{%- set counts = ['n', 'n_known', 'n_first_has_answer', 'n_has_answer', 'n_passage_of_subject', 'n_passage_of_namesake',
    'n_passage_of_other'] -%}
{%- set is_here = 'parametric_correct = one.correct and retrieval_correct = other.correct' -%}
{%- set known = 'answer_pairs.first_has_answer is not null and answer_pairs.has_answer is not null' -%}
{%- set quadrant = pair ~ ', parametric_correct, retrieval_correct' -%}
with answer_pairs as (select * from {{ ref('int_answer_pairs') }}),

read_passages as (select * rename (method as retrieval_method) from {{ ref('int_answer_passages') }}),

subjects as (

    select
        {{ quadrant }},
        answer_pairs.cluster_id,
        count(*) as n,
        count(*) filter (where {{ known }}) as n_known,
        count(*) filter (where {{ known }} and answer_pairs.first_has_answer) as n_first_has_answer,
        count(*) filter (where {{ known }} and answer_pairs.has_answer) as n_has_answer,
        count(*) filter (where read_passages.passage_of = 'subject') as n_passage_of_subject,
        count(*) filter (where read_passages.passage_of = 'namesake') as n_passage_of_namesake,
        count(*) filter (where read_passages.passage_of = 'other') as n_passage_of_other
    from answer_pairs
    left join read_passages using (dataset, prompt, model, retrieval_method, question_id)
    group by {{ quadrant }}, answer_pairs.cluster_id

),

-- All four quadrants of each subject, including those without a question.
in_quadrants as (

    select
        {{ pair }},
        one.correct as parametric_correct,
        other.correct as retrieval_correct,
        subjects.cluster_id,
        {%- for count in counts %}
        coalesce(sum({{ count }}) filter (where {{ is_here }}), 0)::bigint as {{ count }},
        {%- endfor %}
        sum(subjects.n)::bigint as n_questions
    from subjects
    cross join (values (true), (false)) as one (correct)
    cross join (values (true), (false)) as other (correct)
    group by {{ pair }}, one.correct, other.correct, subjects.cluster_id

),

summed as (

    select
        {{ quadrant }},
        sum(n_questions)::bigint as n_questions,
        {{ sums(counts) }},
        {{ subject_sums('n', 'n_questions') }} as in_quadrant,
        {{ subject_sums('n_first_has_answer', 'n_known') }} as first_hits,
        {{ subject_sums('n_has_answer', 'n_known') }} as hits
    from in_quadrants
    group by {{ quadrant }}

),

final as (

    select
        {{ quadrant }},
        n_questions,
        n,
        {{ subjects_and_deff('in_quadrant') }},
        {{ rate('in_quadrant', 'share') }},
        n_known,
        {{ rate('first_hits', 'recall_at_1') }},
        {{ rate('hits', 'recall_read') }},
        n_passage_of_subject,
        n_passage_of_namesake,
        n_passage_of_other
    from summed

)

select * from final
