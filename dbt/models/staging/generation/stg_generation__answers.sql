select
    *,
    {{ generation_key() }} as generation_key
from {{ source('lake', 'answers') }}
where {{ is_declared(['dataset', 'model', 'method', 'prompt'], generations='questions') }}
