-- The paper's draw of questions: at most so many of each dataset and bin, by a hash of the question's id.
with question_bins as (

    select * from {{ ref('int_question_bins') }}
    where relation = 'all'

),

popularity_window as (select * from {{ ref('int_popularity_window') }}),

cooccurrences as (

    select
        *,
        case when n_cooccurrences = 0 then 0 else floor(log10(n_cooccurrences))::integer + 1 end as bin
    from {{ ref('stg_grounding__entity_cooccurrences') }}
    where n_cooccurrences is not null

),

binned as (

    select
        question_bins.dataset,
        question_bins.question_id,
        popularity_window.measure,
        question_bins.bin,
        question_bins.bin_low,
        question_bins.bin_high,
        question_bins.bin_center_log10
    from question_bins
    cross join popularity_window
    union all by name
    select
        dataset,
        question_id,
        'co_occurrence' as measure,
        bin,
        case when bin = 0 then 0 else pow(10, bin - 1) end as bin_low,
        pow(10, bin) as bin_high,
        case when bin > 0 then bin - 0.5 end as bin_center_log10
    from cooccurrences

),

final as (

    select *
    from binned
    qualify
        row_number() over (partition by dataset, measure, bin order by md5(question_id), question_id)
        <= {{ var('grounding_questions_per_bin') }}

)

select * from final
