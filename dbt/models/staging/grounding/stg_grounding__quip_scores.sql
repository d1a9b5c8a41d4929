select * from {{ source('lake', 'quip_scores') }}
where {{ is_declared(['dataset', 'model']) }}
