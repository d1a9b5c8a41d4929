with expected as (select * from {{ ref('int_expected_rows') }}),
answered as (select * from {{ ref('int_answered_rows') }}),

-- Their rows in the quarantine, by the key that generation wrote: dataset/question/…/prompt. Grounded generations have
-- their method before the prompt.
failed as (

    select
        table_name,
        split_part(row_key, '/', 1) as dataset,
        case when table_name != 'generated_passages' then split_part(row_key, '/', -1) end as prompt,
        split_part(partition, '|', 1) as model,
        coalesce(
            nullif(split_part(partition, '|', 2), ''),
            case when table_name = 'grounded_generations' then split_part(row_key, '/', -2) end,
            if(table_name = 'generated_passages', {{ method_of('background') }}, {{ method_of('memory') }})
        ) as method,
        count(*) as n
    from {{ ref('stg_audit__quarantine') }}
    group by all

),

counted as (

    select
        expected.table_name,
        expected.dataset,
        expected.prompt,
        expected.model,
        expected.method,
        count(*) as n_expected,
        count(*) filter (where answered.question_id is null) as n_missing
    from expected
    left join answered
        on
            expected.table_name = answered.table_name
            and expected.dataset = answered.dataset
            and expected.question_id = answered.question_id
            and expected.model = answered.model
            and expected.method = answered.method
            and expected.number = answered.number
            and coalesce(expected.prompt, '') = coalesce(answered.prompt, '')
    group by all

),

final as (

    select
        counted.*,
        coalesce(failed.n, 0) as n_quarantined,
        case
            when counted.n_missing = 0 then 'complete'
            when counted.n_missing = counted.n_expected then 'no rows'
            else 'rows missing'
        end as state
    from counted
    left join failed
        on
            counted.table_name = failed.table_name
            and counted.dataset = failed.dataset
            and counted.model = failed.model
            and counted.method = failed.method
            and coalesce(counted.prompt, '') = coalesce(failed.prompt, '')

)

select * from final
