select * from {{ source('lake', 'question_counts') }}
where {{ is_declared(['dataset']) }}
