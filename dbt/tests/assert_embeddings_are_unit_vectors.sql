-- Cosines of vectors that are not of length 1 would hide a wrong encoder.
select text
from {{ ref('stg_generation__answer_embeddings') }}
where abs(array_inner_product(embedding, embedding) - 1) > 1e-3
