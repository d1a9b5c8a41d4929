{{ config(materialized='view') }}

-- Split -1 holds every row: the thresholds fitted on it are those in-sample.
with steps as (

    select * from {{ ref('int_adaptive_steps') }}

),

splits as (

    select * from {{ ref('int_adaptive_splits') }}

),

final as (

    select
        steps.*,
        -1 as split
    from steps
    union all
    select
        steps.*,
        splits.split
    from steps
    inner join splits
        on
            steps.dataset = splits.dataset
            and steps.question_id = splits.question_id
    where splits.is_training

)

select * from final
