select * from {{ source('lake', 'prediction_terms') }}
where {{ is_declared(['dataset', 'model', 'prompt'], generations='paraphrases') }}
