-- PopQA-TP, Table 1: how close are the wordings of a set to their questions, how consistently are they answered, and
-- how often does a wording get its question's verdict? Datasets with the same draws (key drawn_as) compare two sets.
with verdicts as (

    select
        dataset,
        prompt,
        model,
        unnest([answers.relation, 'all']) as relation,
        (answers.is_correct = questions.is_correct)::int as is_same_verdict,
        answers.is_correct::int as is_correct
    from {{ ref('fct_paraphrase_answers') }} as answers
    inner join {{ ref('fct_question_consistency') }} as questions using (dataset, prompt, model, question_id)
    where answers.paraphrase_id > 0

),

by_relation as (

    select
        dataset,
        prompt,
        model,
        relation,
        count(*) as n_wordings,
        avg(is_same_verdict) as same_verdict,
        avg(is_correct) as accuracy_of_wordings
    from verdicts
    group by dataset, prompt, model, relation

)

select
    dataset,
    prompt,
    model,
    relation,
    consistency.n,
    by_relation.n_wordings,
    round(quality.mean_cosine, 3) as mean_cosine,
    round(consistency.scons, 3) as scons,
    round(consistency.scons_ci_low, 3) as scons_ci_low,
    round(consistency.scons_ci_high, 3) as scons_ci_high,
    round(consistency.accuracy, 3) as accuracy,
    round(by_relation.accuracy_of_wordings, 3) as accuracy_of_wordings,
    round(by_relation.same_verdict, 3) as same_verdict
from by_relation
inner join {{ ref('fct_semantic_consistency') }} as consistency using (dataset, prompt, model, relation)
left join {{ ref('fct_paraphrase_quality') }} as quality using (dataset, relation)
order by relation != 'all', relation, dataset, prompt, model
