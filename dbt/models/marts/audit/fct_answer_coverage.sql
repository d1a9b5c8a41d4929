with expected as (select * from {{ ref('int_expected_rows') }}),
answered as (select * from {{ ref('int_answered_rows') }}),

failed as (

    select
        table_name,
        dataset,
        prompt,
        model,
        method,
        sum(n_failed)::bigint as n
    from {{ ref('fct_failed_answers') }}
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
