select * from {{ source('lake', 'entity_linking') }}
