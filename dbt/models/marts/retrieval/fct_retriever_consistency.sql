{%- set measures = ['passages_jaccard', 'titles_jaccard', 'query_cosine'] -%}
with pairs as (

    select * from {{ ref('int_wording_pairs') }}

),

questions as (

    select * from {{ ref('int_questions_by_relation') }}

),

answers as (

    select * from {{ ref('int_paraphrase_answers') }}

),

asked as (

    select distinct
        dataset,
        model,
        prompt
    from answers

),

agreements as (

    select * from {{ ref('int_answer_agreements') }}

),

final as (

    select
        pairs.dataset,
        pairs.retriever,
        questions.relation,
        asked.model,
        asked.prompt,
        count(*) as n_pairs,
        count(*) filter (where agreements.agree) as n_agreeing,
        count(*) filter (where not agreements.agree) as n_disagreeing,
        {%- for measure in measures %}
        avg(pairs.{{ measure }}) as {{ measure }},
        avg(pairs.{{ measure }}) filter (where agreements.agree) as {{ measure }}_agreeing,
        avg(pairs.{{ measure }}) filter (where not agreements.agree) as {{ measure }}_disagreeing,
        {{ agreement_correlation('pairs.' ~ measure, 'agreements.agree') }} as {{ measure }}_correlation
        {%- if not loop.last %},{% endif %}{% endfor %}
    from pairs
    inner join questions on pairs.dataset = questions.dataset and pairs.question_id = questions.question_id
    left join asked on pairs.dataset = asked.dataset
    left join agreements
        on
            pairs.dataset = agreements.dataset
            and pairs.question_id = agreements.question_id
            and asked.model = agreements.model
            and asked.prompt = agreements.prompt
            and pairs.paraphrase_id = agreements.paraphrase_id
            and pairs.other_paraphrase_id = agreements.other_paraphrase_id
    group by pairs.dataset, pairs.retriever, questions.relation, asked.model, asked.prompt

)

select * from final
