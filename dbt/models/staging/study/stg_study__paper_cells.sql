select * from {{ source('lake', 'paper_cells') }}
