select * from {{ source('lake', 'tuned_answers') }}
where {{ is_declared(['tuned_model']) }}
