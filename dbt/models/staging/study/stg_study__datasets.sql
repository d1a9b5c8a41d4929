select * from {{ source('lake', 'datasets') }}
