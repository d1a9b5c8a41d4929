with answer_pairs as (

    select * from {{ ref('int_answer_pairs') }}

),

pairs as (

    select
        dataset,
        prompt,
        model,
        parametric_method,
        retrieval_method,
        count(*) as n_all
    from answer_pairs
    group by dataset, prompt, model, parametric_method, retrieval_method

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
        quadrants.dataset,
        quadrants.prompt,
        quadrants.model,
        quadrants.parametric_method,
        quadrants.retrieval_method,
        quadrants.parametric_correct,
        quadrants.retrieval_correct,
        count(answer_pairs.question_id) as n,
        count(answer_pairs.question_id) / max(quadrants.n_all) as share,
        avg(answer_pairs.has_answer::integer) as recall_at_1
    from quadrants
    left join answer_pairs
        on
            quadrants.dataset = answer_pairs.dataset
            and quadrants.prompt = answer_pairs.prompt
            and quadrants.model = answer_pairs.model
            and quadrants.parametric_method = answer_pairs.parametric_method
            and quadrants.retrieval_method = answer_pairs.retrieval_method
            and quadrants.parametric_correct = answer_pairs.parametric_correct
            and quadrants.retrieval_correct = answer_pairs.retrieval_correct
    group by all

)

select * from final
