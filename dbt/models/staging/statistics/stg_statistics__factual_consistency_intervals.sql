select * from {{ source('lake', 'factual_consistency_intervals') }}
where {{ is_declared(['dataset', 'prompt', 'model'], generations='candidates') }}
