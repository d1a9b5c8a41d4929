select * from {{ source('lake', 'adaptive_signals') }}
where {{ is_declared(['dataset', 'model', 'prompt'], generations='questions') }}
