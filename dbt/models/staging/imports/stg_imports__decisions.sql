select * from {{ source('lake', 'imported_decisions') }}
where {{ is_declared(['dataset']) }}
