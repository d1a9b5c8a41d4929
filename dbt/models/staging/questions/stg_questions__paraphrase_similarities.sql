select * from {{ source('lake', 'paraphrase_similarities') }}
where {{ is_declared(['dataset']) }}
