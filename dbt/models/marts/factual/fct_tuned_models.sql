{%- set key = 'tuned_model, step, split' -%}
with together as (

    {{ means_over_relations(ref('int_tuned_measures'), key) }}

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
        intervals.n_subjects,
        intervals.value_low as ci_low,
        intervals.value_high as ci_high,
        if(intervals.value_low is null, coalesce(intervals.no_interval, 'not computed'), null) as no_interval,
        models.is_kept as is_best,
        models.loss,
        models.retriever_loss,
        settings.base_model,
        settings.trained_retriever,
        settings.batch_size,
        settings.reader_rate,
        settings.retriever_rate,
        settings.temperature,
        settings.schedule,
        settings.passages_per_query,
        settings.training_relations,
        models.folder,
        models.folder_revision
    from together
    inner join {{ ref('stg_generation__tuned_models') }} as models using (tuned_model, step)
    inner join {{ ref('stg_study__sweep_settings') }} as settings using (tuned_model)
    left join {{ ref('int_tuned_model_intervals') }} as intervals using ({{ key }}, relation, measure)

)

select * from final
