select * from {{ source('lake', 'triples') }}
