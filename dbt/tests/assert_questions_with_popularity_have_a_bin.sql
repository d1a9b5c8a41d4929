{{ config(meta={'dagster': {'ref': {'name': 'int_question_bins'}}}) }}

-- Every question above 0 has a bin in its relation and one in all. The key of int_question_bins says only "at most
-- one".
select
    questions.dataset,
    questions.question_id,
    questions.relation
from {{ ref('int_questions_by_relation') }} as questions
left join {{ ref('int_question_bins') }} as bins using (dataset, question_id, relation)
where questions.subject_popularity > 0 and bins.bin is null
