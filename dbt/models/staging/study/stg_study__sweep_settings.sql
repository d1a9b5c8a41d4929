select * from {{ source('lake', 'sweep_settings') }}
