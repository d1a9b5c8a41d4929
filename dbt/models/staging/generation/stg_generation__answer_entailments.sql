select * from {{ source('lake', 'answer_entailments') }}
where {{ is_declared(['model']) }}
