with source as (

    select * from {{ source('lake', 'adaptive_gains') }}

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
        source.prompt,
        source.model,
        source.parametric_method,
        source.retrieval_method,
        source.search,
        source.threshold_scope,
        source.n_questions,
        source.n_resamples,
        source.gain_in_sample,
        source.gain_mean,
        source.gain_low,
        source.gain_high
    from source
    inner join datasets on source.dataset = datasets.dataset
    inner join models on source.model = models.model
    inner join prompts on source.prompt = prompts.prompt and list_contains(prompts.asks, 'questions')

)

select * from final
