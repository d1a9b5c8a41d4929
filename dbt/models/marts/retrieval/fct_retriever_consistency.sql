{%- set key = 'dataset, retriever, relation, answer_kind, model, method, prompt, measure' -%}
{%- set parts = [('', 'n_pairs'), ('_agreeing', 'n_agreeing'), ('_disagreeing', 'n_disagreeing')] -%}
with similarities as (

    select
        *,
        avg((standardised * standardised_agree)::decimal(38, 24)) over (partition by {{ key }}) as correlation
    from {{ ref('int_wording_similarities') }}

),

subjects as (

    select
        {{ key }},
        cluster_id,
        count(distinct question_id) as n_questions,
        any_value(correlation) as correlation,
        count(*) as n_pairs,
        count(*) filter (where agree) as n_agreeing,
        count(*) filter (where not agree) as n_disagreeing,
        sum(similarity::decimal(38, 24)) as total,
        sum(similarity::decimal(38, 24)) filter (where agree) as total_agreeing,
        sum(similarity::decimal(38, 24)) filter (where not agree) as total_disagreeing,
        sum(deviation::decimal(38, 24)) as error,
        sum(deviation_of_part::decimal(38, 24)) filter (where agree) as error_agreeing,
        sum(deviation_of_part::decimal(38, 24)) filter (where not agree) as error_disagreeing,
        -- The influence of a pair on Pearson's correlation.
        sum((
            standardised * standardised_agree - correlation * (standardised ** 2 + standardised_agree ** 2) / 2
        )::decimal(38, 24)) as error_correlation
    from similarities
    group by {{ key }}, cluster_id

),

final as (

    select
        {{ key }},
        sum(n_questions)::bigint as n_questions,
        count(*) as n_subjects,
        {%- for part, n in parts %}
        sum({{ n }})::bigint as {{ n }},
        sum(total{{ part }}) / nullif(sum({{ n }}), 0) as similarity{{ part }},
        {{ clustered_interval(
            'similarity' ~ part, 'error' ~ part, 'sum(' ~ n ~ ')', "if(measure = 'query_cosine', -1, 0)", 'similarity' ~ part
        ) }},
        {%- endfor %}
        any_value(correlation) as correlation,
        {{ clustered_interval(
            'any_value(correlation)', 'error_correlation', 'sum(n_agreeing + n_disagreeing)', -1, 'correlation'
        ) }}
    from subjects
    group by {{ key }}

)

select * from final
