select * from {{ source('lake', 'entities') }}
