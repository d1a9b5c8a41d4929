select * from {{ source('lake', 'grounding_intervals') }}
where {{ is_declared(['dataset', 'model', 'grounding_prompt']) }}
