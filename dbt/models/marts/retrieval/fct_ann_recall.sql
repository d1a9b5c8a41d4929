with search_recalls as (

    select
        retriever,
        k,
        n_found / n_exact as recall
    from {{ ref('stg_retrieval__search_recalls') }}

),

final as (

    select
        retriever,
        k,
        count(*) as n,
        avg(recall) as recall,
        {{ mean_interval('recall', 0, 1) }}
    from search_recalls
    group by retriever, k

)

select * from final
