select
    *,
    {{ generation_key() }} as generation_key
from {{ source('lake', 'candidate_answers') }}
where {{ is_declared(['dataset', 'model', 'method', 'prompt'], generations='candidates') }}
