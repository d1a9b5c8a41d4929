with source as (

    select * from {{ source('lake', 'search_recalls') }}

),

final as (

    select
        retriever,
        dataset,
        question_id,
        k,
        n_exact,
        n_found
    from source

)

select * from final
