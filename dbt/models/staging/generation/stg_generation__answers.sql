with source as (

    select * from {{ source('lake', 'answers') }}

),

datasets as (

    select * from {{ ref('stg_study__datasets') }}

),

models as (

    select * from {{ ref('stg_study__models') }}

),

methods as (

    select * from {{ ref('stg_study__methods') }}

),

prompts as (

    select * from {{ ref('stg_study__prompts') }}

),

final as (

    select
        source.dataset,
        source.question_id,
        source.model,
        source.method,
        source.prompt,
        source.passage_id,
        source.demonstration_ids,
        source.prompt_hash,
        source.prediction,
        source.raw_text,
        source.is_correct,
        source.is_correct_case_sensitive,
        source.is_correct_normalized,
        source.is_exact_match,
        source.token_f1,
        source.rouge_l,
        source.prompt_tokens,
        source.new_tokens,
        source.n_truncated_tokens,
        source.latency_ms,
        source.batch_size,
        source.cost_usd,
        source.engine,
        source.revision,
        source.dtype,
        source.quantisation,
        source.seed,
        source.is_reused,
        source.run_id,
        source.code_version
    from source
    inner join datasets on source.dataset = datasets.dataset
    inner join models on source.model = models.model
    inner join methods on source.method = methods.method
    inner join prompts on source.prompt = prompts.prompt and list_contains(prompts.asks, 'questions')

)

select * from final
