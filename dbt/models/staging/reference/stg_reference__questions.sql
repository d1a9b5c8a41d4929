select * from {{ source('lake', 'reference_questions') }}
