with models as (select * from {{ ref('stg_study__models') }}),
answers as (select * from {{ ref('int_answers') }}),

-- All values are shown. Several values mean that different weights or engines answered the partitions.
seen as (

    select
        model,
        count(*) as n_answers,
        string_agg(distinct engine, ', ' order by engine) as engine,
        string_agg(distinct revision, ', ' order by revision) as revision,
        string_agg(distinct dtype, ', ' order by dtype) as dtype,
        string_agg(distinct quantisation, ', ' order by quantisation) as quantisation
    from answers
    group by model

),

final as (

    select
        models.model,
        models.family,
        models.n_parameters,
        models.path,
        seen.revision,
        seen.dtype,
        seen.quantisation,
        seen.engine,
        models.is_encoder_decoder,
        models.is_instruction_tuned,
        models.n_passages,
        models.rambles,
        models.sentence_splitter,
        models.thinking_tokens,
        models.declines,
        models.device_hour_usd,
        coalesce(seen.n_answers, 0) as n_answers
    from models
    left join seen using (model)

)

select * from final
