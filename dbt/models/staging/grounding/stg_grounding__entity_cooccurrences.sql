select * from {{ source('lake', 'entity_cooccurrences') }}
where {{ is_declared(['dataset']) }}
