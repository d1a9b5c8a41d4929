select * from {{ source('lake', 'quarantine') }}
