with source as (

    select * from {{ source('lake', 'patterns') }}
    where {{ is_declared(['dataset']) }}

),

final as (

    select
        dataset,
        relation,
        paraphrase_id,
        pattern,
        lemma,
        extended_lemma,
        tense,
        article,
        ends_in_object
    from source

)

select * from final
