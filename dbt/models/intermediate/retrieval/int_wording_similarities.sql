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

asked as (select distinct dataset, answer_kind, model, method, prompt from agreements),  -- noqa: LT09

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
    left join asked using (dataset)
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

-- Averages are of decimals, whose sum does not depend on the order of the rows.
centred as (

    select
        *,
        similarity - avg(similarity::decimal(38, 24)) over (partition by {{ key }}) as deviation,
        similarity - avg(similarity::decimal(38, 24)) over part as deviation_of_part,
        if(agree is null, null, similarity - avg(similarity::decimal(38, 24)) over known) as deviation_of_known,
        if(agree is null, null, avg(agree::int) over known) as share_agreeing
    from compared
    window part as (partition by {{ key }}, agree), known as (partition by {{ key }}, agree is not null)

),

final as (

    select
        * exclude (deviation_of_known, share_agreeing),
        deviation_of_known
        / nullif(sqrt(avg((deviation_of_known ** 2)::decimal(38, 24)) over known), 0) as standardised,
        (agree::int - share_agreeing) / nullif(sqrt(share_agreeing * (1 - share_agreeing)), 0) as standardised_agree
    from centred
    window known as (partition by {{ key }}, agree is not null)

)

select * from final
