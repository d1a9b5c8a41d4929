with generations as (

    select
        *,
        coalesce(exact_match, f1, rouge_l) as score,
        case
            when exact_match is not null then 'exact_match'
            when f1 is not null then 'f1'
            when rouge_l is not null then 'rouge_l'
        end as end_task
    from {{ ref('int_grounded_generations') }}

),

final as (

    select
        dataset,
        model,
        method,
        grounding_prompt,
        grounding_kind,
        steps,
        count(*) as n,
        count(quip) as n_quip,
        count(*) filter (where is_parsed and quip is null) as n_undefined,
        count(*) filter (where not is_parsed) as n_unparsed,
        avg(quip) as mean_quip,
        {{ mean_interval('quip', 0, 1) }},
        avg(quip_reference) as mean_quip_reference,
        {{ mean_interval('quip_reference', 0, 1) }},
        max(end_task) as end_task,
        avg(score) as mean_score,
        {{ mean_interval('score', 0, 1) }},
        avg(kilt_score) as mean_kilt_score,
        {{ mean_interval('kilt_score', 0, 1) }}
    from generations
    group by dataset, model, method, grounding_prompt, grounding_kind, steps

)

select * from final
