with answers as (select * from {{ ref('int_answers') }}),

swapped as (

    select * from {{ ref('stg_retrieval__retrieved_passages') }}
    where rank = 1 and swapped_answers is not null

),

memory as (

    select answers.*
    from answers
    inner join {{ ref('stg_study__methods') }} as methods
        on answers.method = methods.method and methods.kind = 'memory'

),

compared as (

    select
        answers.dataset,
        answers.prompt,
        answers.model,
        answers.question_id,
        answers.cluster_id,
        memory.is_correct as memory_correct,
        memory.sum_log_probability,
        memory.confidence_tokens,
        (memory.is_correct and answers.is_correct)
        or {{ popqa_match('answers.prediction', trimmed('memory.prediction')) }} as keeps_memory,
        list_bool_or(list_transform(
            swapped.swapped_answers, lambda told: {{ popqa_match('answers.prediction', 'told') }}
        )) as follows_passage
    from answers
    inner join swapped
        on
            answers.dataset = swapped.dataset
            and answers.question_id = swapped.question_id
            and answers.method = swapped.retriever
    inner join memory
        on
            answers.dataset = memory.dataset
            and answers.prompt = memory.prompt
            and answers.model = memory.model
            and answers.question_id = memory.question_id

),

final as (

    select
        dataset,
        prompt,
        model,
        question_id,
        cluster_id,
        memory_correct,
        {{ confidence_columns() }},
        case
            when keeps_memory and follows_passage then 'undecided'
            when keeps_memory then 'memory'
            when follows_passage then 'passage'
            else 'other'
        end as outcome
    from compared

)

select * from final
