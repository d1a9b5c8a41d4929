{%- set key = 'dataset, prompt, question_id, model' -%}
{%- set of_paraphrases = ['answered.n_answers', 'asked_paraphrases.n_paraphrases', 'paraphrased'] -%}
{%- set of_samples = ['sampled.n_samples', 'sampled.n_samples_asked', 'drawn'] -%}
with asked_paraphrases as (

    select
        dataset,
        question_id,
        count(*) as n_paraphrases
    from {{ ref('stg_questions__paraphrases') }}
    group by dataset, question_id

),
{% for name, asked in [('paraphrased', 'paraphrases'), ('drawn', 'samples')] %}
{{ name }} as (

    select
        similarities.*,
        sets.share_identical
    from {{ ref('int_answer_similarities') }} as similarities
    inner join {{ ref('int_answer_sets') }} as sets using (asked, {{ key }})
    where asked = '{{ asked }}'

),
{% endfor %}
answered as (

    select
        {{ key }},
        any_value(relation) as relation,
        count(*) as n_answers,
        count(*) filter (where prediction = '') as n_empty_answers,
        bool_or(is_correct) filter (where paraphrase_id = 0) as is_correct
    from {{ ref('int_paraphrase_answers') }}
    group by {{ key }}

),

sampled as (

    select
        {{ key }},
        any_value(relation) as relation,
        count(*) as n_samples,
        count(*) filter (where prediction = '') as n_empty_samples,
        min(n_samples) as n_samples_asked
    from {{ ref('int_sampled_answers') }}
    group by {{ key }}

),

final as (

    select
        dataset,
        prompt,
        question_id,
        coalesce(answered.relation, sampled.relation) as relation,
        model,
        coalesce(answered.n_answers, 0) as n_answers,
        coalesce(answered.n_empty_answers, 0) as n_empty_answers,
        answered.is_correct,
        asked_paraphrases.n_paraphrases,
        {{ int_sim(*of_paraphrases) }} as scons,
        {{ int_sim(*of_paraphrases, value='share_identical') }} as identical_answers,
        coalesce(sampled.n_samples, 0) as n_samples,
        coalesce(sampled.n_empty_samples, 0) as n_empty_samples,
        {{ int_sim(*of_samples) }} as cert,
        {{ int_sim(*of_samples, value='share_identical') }} as identical_samples,
        {{ int_sim(*of_samples, value='n_clusters') }} as n_clusters,
        {{ int_sim(*of_samples, value='entropy') }} as semantic_entropy
    from answered
    full join sampled using ({{ key }})
    left join asked_paraphrases using (dataset, question_id)
    left join paraphrased using (dataset, prompt, question_id, model)
    left join drawn using (dataset, prompt, question_id, model)

)

select * from final
