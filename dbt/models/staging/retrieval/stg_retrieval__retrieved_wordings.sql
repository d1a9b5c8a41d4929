select * from {{ source('lake', 'retrieved_passages') }}
where {{ is_declared(['dataset', 'retriever']) }}
