select * from {{ source('lake', 'question_predictions') }}
where {{ is_declared(['dataset', 'model', 'prompt'], generations='paraphrases') }}
