select * from {{ source('lake', 'methods') }}
