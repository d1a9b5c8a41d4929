with search_recalls as (

    select
        retriever,
        k,
        n_found / n_exact as recall
    from {{ ref('stg_retrieval__search_recalls') }}

),

-- Each query is a cluster of its own.
queries as (

    select
        retriever,
        k,
        recall as recall_y,
        1 as recall_m,
        (recall not in (0, 1))::integer as recall_n_inside
    from search_recalls

),

summed as (

    select
        retriever,
        k,
        count(*) as n,
        {{ value_sums('recall') }}
    from queries
    group by retriever, k

),

final as (

    select
        retriever,
        k,
        n,
        {{ mean_of('recall', 'recall', 0, 1) }}
    from summed

)

select * from final
