{%- set key = 'dataset, question_id, model, method, prompt, text_from' -%}
with scores as (

    select distinct on ({{ key }}) * from {{ ref('stg_grounding__quip_scores') }}

),

answers as (select * from {{ ref('int_answers') }}),
generated_passages as (select * from {{ ref('int_generated_passages') }}),
questions as (select * from {{ ref('int_questions') }}),

generations as (

    select
        dataset,
        question_id,
        model,
        method,
        prompt,
        'answers' as text_from,
        raw_text
    from answers
    union all by name
    select
        dataset,
        question_id,
        model,
        {{ method_of('background') }} as method,
        null as prompt,
        'generated_passages' as text_from,
        raw_text
    from generated_passages

),

final as (

    select
        scores.*,
        questions.relation,
        generations.raw_text,
        {{ parts_of('generations.raw_text', 'scores.span_starts', 'scores.span_ends') }} as quotes
    from scores
    inner join generations
        on
            scores.dataset = generations.dataset
            and scores.question_id = generations.question_id
            and scores.model = generations.model
            and scores.method = generations.method
            and scores.text_from = generations.text_from
            and scores.prompt is not distinct from generations.prompt
    left join questions
        on scores.dataset = questions.dataset and scores.question_id = questions.question_id

)

select * from final
