select * from {{ source('lake', 'signal_quality') }}
where {{ is_declared(['dataset', 'prompt', 'model', 'method'], generations='questions') }}
