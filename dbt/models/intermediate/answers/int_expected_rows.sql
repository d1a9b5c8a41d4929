{{ config(materialized='view') }}

with questions as (

    select * from {{ ref('stg_questions__questions') }}

),

models as (

    select model
    from {{ ref('stg_study__models') }}
    where backend != 'imported'

),

prompts as (

    select * from {{ ref('stg_study__prompts') }}

),

final as (

    select
        'answers' as table_name,
        *,
        0 as number
    from {{ ref('int_expected_answers') }}
    union all
    select
        'paraphrase_answers' as table_name,
        paraphrases.dataset,
        paraphrases.question_id,
        prompts.prompt,
        models.model,
        {{ method_of('memory') }} as method,
        paraphrases.paraphrase_id as number
    from {{ ref('stg_questions__paraphrases') }} as paraphrases
    cross join models
    inner join prompts on list_contains(prompts.asks, 'paraphrases')
    union all
    select
        'sampled_answers' as table_name,
        questions.dataset,
        questions.question_id,
        prompts.prompt,
        models.model,
        {{ method_of('memory') }} as method,
        unnest(range(prompts.n_samples)) as number
    from questions
    cross join models
    inner join prompts on list_contains(prompts.asks, 'samples')
    union all
    select
        'candidate_answers' as table_name,
        questions.dataset,
        questions.question_id,
        prompts.prompt,
        models.model,
        {{ method_of('memory') }} as method,
        patterns.paraphrase_id as number
    from questions
    inner join {{ ref('stg_questions__patterns') }} as patterns using (dataset, relation)
    cross join models
    inner join prompts on list_contains(prompts.asks, 'candidates')
    where patterns.ends_in_object
    union all
    select
        'generated_passages' as table_name,
        questions.dataset,
        questions.question_id,
        null as prompt,
        models.model,
        methods.method,
        0 as number
    from questions
    cross join models
    inner join {{ ref('stg_study__methods') }} as methods on methods.kind = 'background'

)

select * from final
