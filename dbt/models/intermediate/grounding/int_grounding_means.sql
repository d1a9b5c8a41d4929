{%- set key = 'dataset, model, method, grounding_prompt, grounding_kind, steps' -%}
{%- set measures = ['quip', 'quip_reference', 'score', 'kilt_score'] -%}
with generations as (

    select
        grounded.*,
        questions.cluster_id,
        coalesce(grounded.exact_match, grounded.f1, grounded.rouge_l) as score,
        case
            when grounded.exact_match is not null then 'exact_match'
            when grounded.f1 is not null then 'f1'
            when grounded.rouge_l is not null then 'rouge_l'
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
        {%- for measure in measures %}
        {{ subject_values(measure) }},
        {%- endfor %}
        max(end_task) as end_task
    from generations
    group by {{ key }}, cluster_id

),

summed as (

    select
        {{ key }},
        {{ sums(['n', 'n_undefined', 'n_unparsed']) }},
        max(end_task) as end_task,
        {%- for measure in measures %}
        {{ value_sums(measure) }},
        {%- endfor %}
        count(*) as n_subjects
    from subjects
    group by {{ key }}

),

final as (

    select
        {{ key }},
        n,
        n_subjects,
        quip_sums['m']::bigint as n_quip,
        n_undefined,
        n_unparsed,
        {%- for measure in measures %}
        {{ mean_of(measure, 'mean_' ~ measure, 0, 1) }},
        {%- endfor %}
        end_task
    from summed

)

select * from final
