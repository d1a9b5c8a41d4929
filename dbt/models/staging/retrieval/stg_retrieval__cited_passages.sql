select * from {{ source('lake', 'cited_passages') }}
