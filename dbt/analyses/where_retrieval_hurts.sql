-- Right from memory, wrong with a passage: the questions that retrieval spoils, most popular first.
select
    memory.model,
    retrieved.method,
    memory.question,
    memory.gold_answers,
    memory.prediction as prediction_from_memory,
    retrieved.prediction as prediction_with_passage,
    retrieved.has_answer,
    passages.text as passage,
    memory.subject_popularity
from {{ ref('fct_answers') }} as memory
inner join {{ ref('fct_answers') }} as retrieved
    on
        memory.dataset = retrieved.dataset
        and memory.prompt = retrieved.prompt
        and memory.model = retrieved.model
        and memory.question_id = retrieved.question_id
inner join {{ ref('dim_methods') }} as methods on retrieved.method = methods.method
left join {{ ref('dim_passages') }} as passages on retrieved.passage_id = passages.passage_id
where
    memory.method = 'closed_book'
    and not methods.is_parametric
    and memory.is_correct
    and not retrieved.is_correct
order by memory.subject_popularity desc, memory.question_id asc
