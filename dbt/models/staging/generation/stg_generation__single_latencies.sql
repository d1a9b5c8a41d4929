select * from {{ source('lake', 'single_latencies') }}
where {{ is_declared(['dataset', 'model', 'method', 'prompt']) }}
