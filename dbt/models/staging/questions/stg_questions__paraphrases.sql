select * from {{ source('lake', 'paraphrases') }}
where {{ is_declared(['dataset']) }}
