select * from {{ source('lake', 'questions') }}
where {{ is_declared(['dataset']) }}
