select * from {{ source('lake', 'relations') }}
