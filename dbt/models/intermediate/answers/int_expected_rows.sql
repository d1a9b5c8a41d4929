{{ config(materialized='view') }}

with asked as (

    select
        prompts.*,
        models.model,
        models.is_encoder_decoder,
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
    inner join asked on list_contains(asked.asks, 'paraphrases')
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
    inner join asked on list_contains(asked.asks, 'samples')
    union all
    select
        'candidate_answers' as table_name,
        questions.dataset,
        questions.question_id,
        asked.prompt,
        asked.model,
        asked.method,
        patterns.paraphrase_id as number
    from {{ ref('stg_questions__questions') }} as questions
    inner join {{ ref('stg_questions__patterns') }} as patterns using (dataset, relation)
    inner join asked on list_contains(asked.asks, 'candidates')
    where
        asked.is_encoder_decoder = (asked.format = 'cloze_t5')
        and (asked.is_encoder_decoder or patterns.ends_in_object)
    union all
    select
        *,
        0 as number
    from {{ ref('int_expected_texts') }}

)

select * from final
