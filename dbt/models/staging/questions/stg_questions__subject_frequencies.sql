with source as (

    select * from {{ source('lake', 'subject_frequencies') }}

),

final as (

    select
        entity_id,
        popularity_measure,
        month,
        popularity,
        n_names,
        n_whole_words,
        n_anywhere,
        n_text_bytes,
        measured_from
    from source

)

select * from final
