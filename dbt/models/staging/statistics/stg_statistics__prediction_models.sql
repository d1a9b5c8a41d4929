select * from {{ source('lake', 'prediction_models') }}
where {{ is_declared(['dataset', 'model', 'prompt'], generations='paraphrases') }}
