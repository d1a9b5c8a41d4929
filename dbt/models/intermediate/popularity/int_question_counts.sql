select
    dataset,
    question_id,
    map_from_entries(list((count_measure, n_counted::double) order by count_measure)) as counts
from {{ ref('stg_questions__question_counts') }}
group by dataset, question_id
