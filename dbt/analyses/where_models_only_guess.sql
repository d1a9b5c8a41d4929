-- PopQA, section 4.2 and appendix C.1: in which relations is a model no better than guessing, either the most frequent
-- answer or the subject's name?
select
    accuracy.dataset,
    accuracy.prompt,
    accuracy.relation,
    accuracy.model,
    accuracy.n,
    round(accuracy.accuracy, 3) as accuracy,
    round(accuracy.ci_low, 3) as ci_low,
    round(accuracy.ci_high, 3) as ci_high,
    guessing.majority_answer,
    round(guessing.accuracy_majority, 3) as accuracy_majority,
    round(guessing.share_answer_in_subject, 3) as share_answer_in_subject,
    accuracy.ci_low > greatest(guessing.accuracy_majority, guessing.share_answer_in_subject) as is_clearly_better
from {{ ref('fct_accuracy') }} as accuracy
inner join {{ ref('fct_guessing_baselines') }} as guessing using (dataset, relation)
where
    accuracy.method in (
        select methods.method from {{ ref('dim_methods') }} as methods
        where methods.kind = 'memory'
    )
    and accuracy.relation != 'all'
order by accuracy.dataset, accuracy.prompt, accuracy.relation, accuracy.model
