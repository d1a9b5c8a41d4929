with answers as (

    select * from {{ ref('int_paraphrase_answers') }}

),

embeddings as (

    select * from {{ ref('stg_generation__answer_embeddings') }}

),

embedded as (

    select
        answers.dataset,
        answers.question_id,
        answers.model,
        answers.prompt,
        answers.paraphrase_id,
        embeddings.embedding
    from answers
    inner join embeddings on answers.prediction = embeddings.text

),

final as (

    select
        one.dataset,
        one.question_id,
        one.model,
        one.prompt,
        avg(array_cosine_similarity(one.embedding, other.embedding)::double) as mean_similarity,
        count(*) as n_pairs
    from embedded as one
    inner join embedded as other
        on
            one.dataset = other.dataset
            and one.question_id = other.question_id
            and one.model = other.model
            and one.prompt = other.prompt
            and one.paraphrase_id < other.paraphrase_id
    group by one.dataset, one.question_id, one.model, one.prompt

)

select * from final
