select * from {{ source('lake', 'adaptive_signal_gains') }}
where {{ is_declared(['dataset', 'model', 'prompt'], generations='questions') }}
