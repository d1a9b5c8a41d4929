select * from {{ source('lake', 'tuned_models') }}
where {{ is_declared(['tuned_model']) }}
