select * from {{ source('lake', 'imported_answers') }}
where {{ is_declared(['dataset', 'model', 'method', 'prompt'], generations='questions') }}
