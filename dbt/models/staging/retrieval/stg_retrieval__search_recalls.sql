select * from {{ source('lake', 'search_recalls') }}
