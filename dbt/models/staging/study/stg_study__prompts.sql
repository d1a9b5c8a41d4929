select * from {{ source('lake', 'prompts') }}
