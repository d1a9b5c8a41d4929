with questions as (

    select * from {{ ref('int_questions_by_relation') }}

),

bins as (

    select * from {{ ref('int_popularity_bins') }}

),

final as (

    select
        questions.dataset,
        questions.question_id,
        questions.relation,
        bins.bin,
        bins.bin_low,
        bins.bin_high,
        bins.bin_center_log10
    from questions
    inner join bins
        on
            questions.dataset = bins.dataset
            and questions.relation = bins.relation
            and questions.subject_popularity >= bins.bin_low
            and (
                questions.subject_popularity < bins.bin_high
                or (bins.is_last and questions.subject_popularity <= bins.bin_high)
            )

)

select * from final
