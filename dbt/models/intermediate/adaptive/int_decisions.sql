select
    dataset,
    policy,
    question_id,
    retrieves,
    score
from {{ ref('stg_imports__decisions') }}
