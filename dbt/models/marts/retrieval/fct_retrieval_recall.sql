{%- set key = 'dataset, retriever, relation' -%}
{%- set rules = ['', '_popqa'] -%}
with questions as (select * from {{ ref('int_questions_by_relation') }}),
first_hits as (select * from {{ ref('int_first_hits') }}),

subjects as (

    select
        dataset,
        first_hits.retriever,
        questions.relation,
        first_hits.cluster_id,
        {{ recall_counts(rules) }}
    from questions
    inner join first_hits using (dataset, question_id)
    group by dataset, first_hits.retriever, questions.relation, first_hits.cluster_id

),

summed as (

    select
        {{ key }},
        {{ recall_sums(rules) }}
    from subjects
    group by {{ key }}

),

final as (

    select
        {{ key }},
        {{ recall_rates(rules) }}
    from summed

)

select * from final
