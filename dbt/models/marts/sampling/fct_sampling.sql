with candidate_triples as (select * from {{ ref('int_candidate_triples') }}),
subject_frequencies as (select * from {{ ref('stg_questions__subject_frequencies') }}),

subjects as (

    select distinct
        relation,
        popularity_decade,
        subject_id
    from candidate_triples

),

occurrences as (

    select
        subjects.relation,
        subjects.popularity_decade,
        sum(subject_frequencies.n_whole_words)::bigint as n_whole_words,
        sum(subject_frequencies.n_anywhere)::bigint as n_anywhere
    from subjects
    inner join subject_frequencies on subjects.subject_id = subject_frequencies.entity_id
    group by subjects.relation, subjects.popularity_decade

),

counts as (

    select
        relation,
        popularity_decade,
        any_value(decade_low) as decade_low,
        any_value(popularity_measure) as popularity_measure,
        any_value(factor) as factor,
        count(*) as candidates,
        count(*) filter (where outcome = 'kept') as kept,
        count(*) filter (where outcome = 'frequency') as dropped_frequency,
        count(*) filter (where outcome = 'cap') as dropped_cap,
        count(*) filter (where outcome = 'no_frequency') as dropped_no_frequency,
        count(*) filter (where outcome = 'no_label') as dropped_no_label,
        count(distinct subject_id) filter (where outcome = 'kept') as n_questions,
        sum(chance) as expected_accepted
    from candidate_triples
    group by relation, popularity_decade

),

final as (

    select
        counts.*,
        counts.kept / counts.candidates as share_kept,
        occurrences.n_whole_words,
        occurrences.n_anywhere
    from counts
    left join occurrences using (relation, popularity_decade)

)

select * from final
