select * from {{ source('lake', 'models') }}
