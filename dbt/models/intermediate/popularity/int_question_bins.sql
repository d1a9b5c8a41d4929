with questions as (select * from {{ ref('int_questions_by_relation') }}),

ranges as (

    select
        dataset,
        relation,
        min(subject_popularity) as low,
        max(subject_popularity) as high
    from questions
    where subject_popularity > 0
    group by dataset, relation

),

-- If popularity does not vary, there is one bin, which includes both edges.
sized as (

    select
        *,
        case when low = high then 1 else {{ var('popularity_bins') }} end as n_bins
    from ranges

),

numbered as (

    select
        *,
        unnest(range(n_bins))::integer as bin
    from sized

),

bins as (

    select
        dataset,
        relation,
        bin,
        {{ log_edge('low', 'high', 'bin', 'n_bins') }} as bin_low,
        {{ log_edge('low', 'high', 'bin + 1', 'n_bins') }} as bin_high,
        log10(low) + (log10(high) - log10(low)) * (bin + 0.5) / n_bins as bin_center_log10,
        bin = n_bins - 1 as is_last
    from numbered

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
