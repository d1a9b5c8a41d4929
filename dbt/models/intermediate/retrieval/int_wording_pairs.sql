with wordings as (select * from {{ ref('int_retrieved_wordings') }}),

final as (

    select
        one.dataset,
        one.question_id,
        one.retriever,
        one.paraphrase_id,
        other.paraphrase_id as other_paraphrase_id,
        {{ jaccard('one.passage_ids', 'other.passage_ids') }} as passages_jaccard,
        {{ jaccard('one.titles', 'other.titles') }} as titles_jaccard,
        list_cosine_similarity(one.query_embedding, other.query_embedding)::double as query_cosine
    from wordings as one
    inner join wordings as other
        on
            one.dataset = other.dataset
            and one.question_id = other.question_id
            and one.retriever = other.retriever
            and one.paraphrase_id < other.paraphrase_id

)

select * from final
