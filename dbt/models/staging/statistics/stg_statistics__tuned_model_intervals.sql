select * from {{ source('lake', 'tuned_model_intervals') }}
where {{ is_declared(['tuned_model']) }}
