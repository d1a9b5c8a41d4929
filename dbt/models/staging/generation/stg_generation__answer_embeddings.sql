select * replace (embedding::float[384] as embedding)
from {{ source('lake', 'answer_embeddings') }}
where {{ is_declared(['model']) }}
