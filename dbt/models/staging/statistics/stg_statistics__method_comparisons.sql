select * from {{ source('lake', 'method_comparisons') }}
where {{ is_declared(['dataset', 'prompt'], generations='questions') }}
