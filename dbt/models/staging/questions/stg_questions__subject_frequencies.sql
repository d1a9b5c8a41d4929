select * from {{ source('lake', 'subject_frequencies') }}
