-- Vectors that do not have length 1 come from a wrong encoder, which cosines would hide.
select
    model,
    text
from {{ ref('stg_generation__answer_embeddings') }}
where abs(array_inner_product(embedding, embedding) - 1) > 1e-3
