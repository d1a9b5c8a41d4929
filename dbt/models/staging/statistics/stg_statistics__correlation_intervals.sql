select * from {{ source('lake', 'correlation_intervals') }}
where {{ is_declared(['dataset', 'prompt', 'model', 'method'], generations='questions') }}
