select * from {{ source('lake', 'imported_popularity') }}
