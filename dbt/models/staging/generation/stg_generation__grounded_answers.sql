select
    *,
    {{ generation_key() }} as generation_key
from {{ source('lake', 'grounded_answers') }}
where {{ is_declared(['dataset', 'model']) }}
