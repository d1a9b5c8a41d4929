{%- set key = 'tuned_model, step, split' -%}
with by_relation as (

    select
        {{ key }},
        relation,
        measure,
        count(*) filter (where denominator > 0) as n_facts,
        sum(denominator) as n,
        sum(numerator) / nullif(sum(denominator), 0) as value
    from {{ ref('int_tuned_measures') }}
    group by {{ key }}, relation, measure

),

-- Pooled within relations; then every relation counts alike.
together as (

    select
        *,
        (n > 0)::bigint as n_relations
    from by_relation
    union all by name
    select
        {{ key }},
        'all' as relation,
        measure,
        sum(n_facts)::bigint as n_facts,
        sum(n) as n,
        avg(value) as value,
        count(value) as n_relations
    from by_relation
    group by {{ key }}, measure

),

final as (

    select
        tuned_model,
        step,
        split,
        relation,
        measure,
        together.n_facts,
        together.n_relations,
        together.n,
        together.value,
        intervals.value_low as ci_low,
        intervals.value_high as ci_high,
        intervals.undefined as ci_undefined,
        models.is_kept as is_best,
        models.loss,
        models.retriever_loss,
        settings.base_model,
        settings.trained_retriever,
        settings.batch_size,
        settings.reader_rate,
        settings.retriever_rate,
        settings.temperature,
        settings.passages_per_query,
        settings.training_relations,
        models.folder,
        models.folder_revision
    from together
    inner join {{ ref('stg_generation__tuned_models') }} as models using (tuned_model, step)
    inner join {{ ref('stg_study__sweep_settings') }} as settings using (tuned_model)
    left join {{ ref('stg_study__tuned_model_intervals') }} as intervals using ({{ key }}, relation, measure)

)

select * from final
