select * from {{ source('lake', 'adaptive_signal_rules') }}
where {{ is_declared(['dataset', 'model', 'prompt'], generations='questions') }}
