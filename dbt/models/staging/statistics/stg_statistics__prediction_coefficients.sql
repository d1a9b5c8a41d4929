select * from {{ source('lake', 'prediction_coefficients') }}
where {{ is_declared(['dataset', 'model', 'prompt'], generations='paraphrases') }}
