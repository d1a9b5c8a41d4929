select * from {{ source('lake', 'candidate_triples') }}
