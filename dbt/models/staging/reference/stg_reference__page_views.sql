select * from {{ source('lake', 'reference_page_views') }}
