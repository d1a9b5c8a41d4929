{{ config(materialized='view') }}

-- A pattern without a passage is not asked. A retriever without any passage has no partition: all are expected.
with variants as (

    select
        models.model,
        models.is_encoder_decoder,
        prompts.prompt,
        prompts.format,
        unnest(prompts.methods) as method
    from {{ ref('stg_study__models') }} as models
    cross join {{ ref('stg_study__prompts') }} as prompts
    where models.backend != 'imported' and list_contains(prompts.generations, 'candidates')

),

retrieved as (

    select distinct
        dataset,
        question_id,
        paraphrase_id,
        retriever
    from {{ ref('stg_retrieval__retrieved_wordings') }}

),

final as (

    select
        questions.dataset,
        questions.question_id,
        variants.prompt,
        variants.model,
        variants.method,
        patterns.paraphrase_id as number
    from {{ ref('stg_questions__questions') }} as questions
    inner join {{ ref('stg_questions__patterns') }} as patterns using (dataset, relation)
    inner join variants
        on
            variants.is_encoder_decoder = (variants.format = 'cloze_t5')
            and (variants.is_encoder_decoder or patterns.ends_in_object)
    inner join {{ ref('stg_study__methods') }} as methods using (method)
    left join retrieved
        on
            questions.dataset = retrieved.dataset
            and questions.question_id = retrieved.question_id
            and variants.method = retrieved.retriever
            and if(methods.is_fixed, 0, patterns.paraphrase_id) = retrieved.paraphrase_id
    where
        methods.kind = 'memory'
        or retrieved.question_id is not null
        or (not methods.may_find_nothing and variants.method not in (select every.retriever from retrieved as every))

)

select * from final
