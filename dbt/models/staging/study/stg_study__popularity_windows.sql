select * from {{ source('lake', 'popularity_windows') }}
