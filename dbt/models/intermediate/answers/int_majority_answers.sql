with questions as (select * from {{ ref('int_questions') }}),

-- Aliases would tie with their labels, so they are used only if a dataset has no labels.
objects as (

    select
        dataset,
        relation,
        question_id,
        unnest(list_distinct(case when len(objects) > 0 then objects else gold_answers end)) as answer
    from questions
    where relation is not null

),

counted as (

    select
        dataset,
        relation,
        answer,
        count(*) as n_questions
    from objects
    where trim(answer) != ''
    group by dataset, relation, answer

),

final as (

    select
        dataset,
        relation,
        answer as majority_answer,
        n_questions
    from counted
    qualify row_number() over (partition by dataset, relation order by n_questions desc, answer asc) = 1

)

select * from final
