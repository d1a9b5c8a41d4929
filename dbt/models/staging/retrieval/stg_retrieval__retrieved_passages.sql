select * from {{ source('lake', 'retrieved_passages') }}
where {{ is_declared(['dataset', 'retriever']) }} and paraphrase_id = 0
