select * from {{ source('lake', 'patterns') }}
where {{ is_declared(['dataset']) }}
