select
    *,
    {{ generation_key() }} as generation_key
from {{ source('lake', 'grounded_generations') }}
where {{ is_declared(['dataset', 'model', 'grounding_prompt']) }}
