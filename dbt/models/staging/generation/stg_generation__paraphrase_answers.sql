with source as (

    select * from {{ source('lake', 'paraphrase_answers') }}

),

datasets as (

    select * from {{ ref('stg_study__datasets') }}

),

models as (

    select * from {{ ref('stg_study__models') }}

),

prompts as (

    select * from {{ ref('stg_study__prompts') }}

),

final as (

    select
        source.dataset,
        source.question_id,
        source.paraphrase_id,
        source.model,
        source.prompt,
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
    inner join prompts on source.prompt = prompts.prompt and list_contains(prompts.asks, 'paraphrases')

)

select * from final
