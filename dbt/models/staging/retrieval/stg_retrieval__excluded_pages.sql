select * from {{ source('lake', 'excluded_pages') }}
