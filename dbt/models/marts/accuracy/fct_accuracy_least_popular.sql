{%- set key = 'dataset, prompt, model, method' -%}
with answers as (select * from {{ ref('int_answers') }}),

datasets as (

    select dataset, count(*) as n_questions, count(subject_popularity) as n_questions_with_popularity  -- noqa: LT09
    from {{ ref('int_questions') }}
    group by dataset

),

-- The same share of this dataset's questions as the paper's 4,000 of 14,267, and some round numbers. Numbers above the
-- dataset's questions with popularity are left out.
sizes as (

    select distinct
        datasets.*,
        coalesce(listed.n_least, floor(datasets.n_questions * 4000 / 14267 + 0.5)::bigint) as n_least
    from datasets
    cross join (values (null::bigint), ({{ var('least_popular') | join('), (') }})) as listed (n_least)

),

least_popular as (

    select
        sizes.*,
        positions.question_id,
        max(positions.subject_popularity) over (partition by sizes.dataset, sizes.n_least) as popularity_high
    from sizes
    inner join {{ ref('int_question_positions') }} as positions using (dataset)
    where
        positions.popularity_rank <= sizes.n_least
        and sizes.n_least between 1 and sizes.n_questions_with_popularity

),

subjects as (

    select
        {{ key }},
        answers.cluster_id,
        least_popular.* exclude (dataset, question_id),
        least_popular.n_least / least_popular.n_questions as share_of_questions,
        count(*) as n,
        count(*) filter (where answers.is_declined) as n_declined,
        count(*) filter (where answers.is_correct) as n_correct
    from answers
    inner join least_popular using (dataset, question_id)
    group by all

),

summed as (

    select
        * exclude (cluster_id, n, n_declined, n_correct),
        {{ sums(['n', 'n_declined', 'n_correct']) }},
        {{ subject_sums('n_correct') }} as correct,
        {{ subject_sums('n_declined') }} as declined,
        {{ subject_sums('n_correct', 'n - n_declined') }} as attempted
    from subjects
    group by all

),

final as (

    select
        * exclude (correct, declined, attempted),
        {{ subjects_and_deff('correct') }},
        {{ rate('correct', 'accuracy', 'ci') }},
        {{ rate('declined', 'share_declined') }},
        {{ rate('attempted', 'accuracy_attempted') }}
    from summed

)

select * from final
