with answers as (select * from {{ ref('int_answers') }}),

groups as (

    select
        dataset,
        prompt,
        model,
        method,
        row_number() over (order by dataset, prompt, model, method) as group_id
    from answers
    group by dataset, prompt, model, method

),

questions as (

    select
        dataset,
        question_id,
        dense_rank() over (order by dataset, cluster_id) as subject,
        row_number() over (partition by dataset, cluster_id order by question_id) as number,
        count(*) over (partition by dataset, cluster_id) as n
    from answers
    group by dataset, question_id, cluster_id

),

-- A bit for each of a subject's questions: which are answered, and which are right.
final as (

    select
        groups.*,
        questions.subject,
        bit_or(set_bit(bitstring('0', questions.n::integer), questions.number::integer - 1, 1)) as answered,
        bit_or(
            set_bit(bitstring('0', questions.n::integer), questions.number::integer - 1, answers.is_correct::integer)
        ) as correct
    from answers
    inner join groups using (dataset, prompt, model, method)
    inner join questions using (dataset, question_id)
    group by all

)

select * from final
