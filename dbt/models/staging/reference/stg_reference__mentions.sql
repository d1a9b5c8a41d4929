select * from {{ source('lake', 'reference_mentions') }}
