{%- set key = 'table_name, dataset, prompt, model, method' -%}
-- The quarantine has the key that generation wrote: dataset/question/…/prompt. Grounded generations have their method
-- before the prompt, their first step has it last. Rows of imported files are known by file and line alone.
with quarantine as (

    select
        *,
        table_name = 'imported_answers' as is_imported,
        split_part(partition, '|', 1) as model
    from {{ ref('stg_audit__quarantine') }}
    where table_name in (
        'answers', 'paraphrase_answers', 'sampled_answers', 'candidate_answers', 'generated_passages',
        'grounded_answers', 'grounded_generations', 'imported_answers'
    )

),

failed as (

    select
        table_name,
        case when not is_imported then split_part(row_key, '/', 1) end as dataset,
        case
            when not is_imported and table_name not in ('generated_passages', 'grounded_answers')
                then split_part(row_key, '/', -1)
        end as prompt,
        model,
        case
            when partition like '%|%' then split_part(partition, '|', 2)
            when table_name = 'grounded_generations' then split_part(row_key, '/', -2)
            when table_name = 'grounded_answers' then split_part(row_key, '/', -1)
            when table_name = 'generated_passages' then {{ method_of('background') }}
            when not is_imported then {{ method_of('memory') }}
        end as method,
        reason,
        count(*) as n_failed,
        min(row_key) as example_row_key
    from quarantine
    where model in (select models.model from {{ ref('stg_study__models') }} as models)
    group by all

),

answered as (

    select
        {{ key }},
        count(*) as n
    from {{ ref('int_answered_rows') }}
    group by {{ key }}
    union all by name
    select
        'imported_answers' as table_name,
        model,
        count(*) as n
    from {{ ref('stg_imports__answers') }}
    group by model

),

final as (

    select
        failed.*,
        coalesce(answered.n, 0) as n,
        failed.n_failed / (coalesce(answered.n, 0) + sum(failed.n_failed) over alike) as share_failed
    from failed
    left join answered
        on
            failed.table_name = answered.table_name
            and failed.model = answered.model
            and failed.dataset is not distinct from answered.dataset
            and failed.prompt is not distinct from answered.prompt
            and failed.method is not distinct from answered.method
    window alike as (partition by failed.{{ key | replace(', ', ', failed.') }})

)

select * from final
