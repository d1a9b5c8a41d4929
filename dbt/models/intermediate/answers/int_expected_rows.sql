{{ config(materialized='view') }}

with asked as (

    select
        prompts.*,
        models.model,
        {{ method_of('memory') }} as method
    from {{ ref('stg_study__prompts') }} as prompts
    cross join {{ ref('stg_study__models') }} as models
    where models.backend != 'imported'

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
        asked.prompt,
        asked.model,
        asked.method,
        paraphrases.paraphrase_id as number
    from {{ ref('stg_questions__paraphrases') }} as paraphrases
    inner join asked on list_contains(asked.generations, 'paraphrases')
    union all
    select
        'sampled_answers' as table_name,
        questions.dataset,
        questions.question_id,
        asked.prompt,
        asked.model,
        asked.method,
        unnest(range(asked.n_samples)) as number
    from {{ ref('stg_questions__questions') }} as questions
    inner join asked on list_contains(asked.generations, 'samples')
    union all
    select
        'candidate_answers' as table_name,
        *
    from {{ ref('int_expected_candidates') }}
    union all
    select
        *,
        0 as number
    from {{ ref('int_expected_texts') }}

)

select * from final
