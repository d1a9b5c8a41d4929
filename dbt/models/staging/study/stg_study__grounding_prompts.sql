select * from {{ source('lake', 'grounding_prompts') }}
