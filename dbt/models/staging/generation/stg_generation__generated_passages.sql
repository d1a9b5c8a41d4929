select
    *,
    {{ generation_key() }} as generation_key
from {{ source('lake', 'generated_passages') }}
where
    {{ is_declared(['dataset', 'model']) }}
    and 'background' in (select methods.kind from {{ source('lake', 'methods') }} as methods)
