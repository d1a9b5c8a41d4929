select * from {{ source('lake', 'policies') }}
where {{ is_declared(['dataset', 'prompt', 'model'], generations='questions') }}
