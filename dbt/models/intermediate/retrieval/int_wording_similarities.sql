{%- set key = 'dataset, retriever, relation, answer_kind, model, method, prompt, measure' -%}
with similarities as (

    {% for measure in ['passages_jaccard', 'titles_jaccard', 'query_cosine'] -%}
    select
        * exclude (passages_jaccard, titles_jaccard, query_cosine),
        '{{ measure }}' as measure,
        {{ measure }} as similarity
    from {{ ref('int_wording_pairs') }}
    where {{ measure }} is not null
    {% if not loop.last %}union all{% endif %}
    {% endfor %}

),

agreements as (select * from {{ ref('int_answer_agreements') }}),

asked as (

    select distinct
        dataset,
        answer_kind,
        model,
        method,
        prompt
    from agreements

),

compared as (

    select
        similarities.*,
        questions.relation,
        questions.cluster_id,
        asked.answer_kind,
        asked.model,
        asked.method,
        asked.prompt,
        agreements.agree
    from similarities
    inner join {{ ref('int_questions_by_relation') }} as questions using (dataset, question_id)
    left join asked on similarities.dataset = asked.dataset
    left join agreements
        on
            similarities.dataset = agreements.dataset
            and similarities.question_id = agreements.question_id
            and asked.answer_kind = agreements.answer_kind
            and asked.model = agreements.model
            and asked.method = agreements.method
            and asked.prompt = agreements.prompt
            and similarities.paraphrase_id = agreements.paraphrase_id
            and similarities.other_paraphrase_id = agreements.other_paraphrase_id

),

final as (

    select
        *,
        similarity - avg(similarity) over (partition by {{ key }}) as deviation,
        similarity - avg(similarity) over (partition by {{ key }}, agree) as deviation_of_part,
        case
            when agree is not null and min(similarity) over known < max(similarity) over known
                then (similarity - avg(similarity) over known) / stddev_pop(similarity) over known
        end as standardised,
        case
            when agree is not null and bool_or(agree) over known and not bool_and(agree) over known
                then (agree::int - avg(agree::int) over known) / stddev_pop(agree::int) over known
        end as standardised_agree
    from compared
    window known as (partition by {{ key }}, agree is not null)

)

select * from final
