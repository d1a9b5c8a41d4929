with first_hits as (select * from {{ ref('int_first_hits') }}),
question_bins as (select * from {{ ref('int_question_bins') }}),

-- A question has two bins: one in its relation and one in all.
final as (

    select
        question_bins.dataset,
        first_hits.retriever,
        question_bins.relation,
        question_bins.bin,
        any_value(question_bins.bin_low) as bin_low,
        any_value(question_bins.bin_high) as bin_high,
        count(*) as n,
        {{ recall_rates() }}
    from first_hits
    inner join question_bins
        on first_hits.dataset = question_bins.dataset and first_hits.question_id = question_bins.question_id
    group by question_bins.dataset, first_hits.retriever, question_bins.relation, question_bins.bin

)

select * from final
