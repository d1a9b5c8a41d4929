{%- set key = 'dataset, model, method, grounding_prompt, grounding_kind, steps' -%}
{%- set measures = ['quip', 'quip_reference', 'score', 'kilt_score'] -%}
with generations as (

    select
        grounded.*,
        questions.cluster_id,
        coalesce(exact_match, f1, rouge_l) as score,
        case
            when exact_match is not null then 'exact_match'
            when f1 is not null then 'f1'
            when rouge_l is not null then 'rouge_l'
        end as end_task
    from {{ ref('int_grounded_generations') }} as grounded
    left join {{ ref('int_questions') }} as questions using (dataset, question_id)

),

subjects as (

    select
        {{ key }},
        cluster_id,
        count(*) as n,
        count(*) filter (where is_parsed and quip is null) as n_undefined,
        count(*) filter (where not is_parsed) as n_unparsed,
        max(end_task) as end_task,
        {%- for measure in measures %}
        {{ subject_values(measure) }}{{ ',' if not loop.last }}
        {%- endfor %}
    from generations
    group by {{ key }}, cluster_id

),

summed as (

    select
        {{ key }},
        sum(n)::bigint as n,
        sum(n_undefined)::bigint as n_undefined,
        sum(n_unparsed)::bigint as n_unparsed,
        max(end_task) as end_task,
        count(*) as n_subjects,
        {%- for measure in measures %}
        {{ value_sums(measure) }}{{ ',' if not loop.last }}
        {%- endfor %}
    from subjects
    group by {{ key }}

),

final as (

    select
        {{ key }},
        n,
        n_subjects,
        quip_sums.m::bigint as n_quip,
        n_undefined,
        n_unparsed,
        end_task,
        {%- for measure in measures %}
        {{ mean_of(measure, 'mean_' ~ measure, 0, 1) }}{{ ',' if not loop.last }}
        {%- endfor %}
    from summed

)

select * from final
