select * from {{ source('lake', 'candidates') }}
where {{ is_declared(['dataset']) }}
