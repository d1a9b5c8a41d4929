select * from {{ source('lake', 'adaptive_gains') }}
where {{ is_declared(['dataset', 'model', 'prompt'], generations='questions') }}
