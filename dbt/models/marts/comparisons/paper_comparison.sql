-- A cell and a result of this study have the same measure of the same thing; other columns say what else differs.
with cells as (select * from {{ ref('stg_study__paper_cells') }}),
datasets as (select * from {{ ref('dim_datasets') }}),
models as (select * from {{ ref('dim_models') }}),
methods as (select * from {{ ref('dim_methods') }}),
prompts as (select * from {{ ref('dim_prompts') }}),
accuracies as (select * from {{ ref('fct_accuracy') }}),

passages as (

    select list_aggregate(list_sort(list(distinct coalesce(collection_source, source))), 'string_agg', ', ') as sources
    from {{ ref('dim_passages') }}

),

results as (

    {{ paper_results() }}

),

final as (

    select
        cells.work,
        cells.item,
        cells.cell,
        cells.paper,
        results.value as ours,
        results.n,
        results.ci_low,
        results.ci_high,
        results.accuracy_attempted,
        results.accuracy_attempted_ci_low,
        results.accuracy_attempted_ci_high,
        cells.study,
        not coalesce(datasets.source = 'sandbox' or models.path like 'sandbox:%', false) as is_real,
        cells.measure,
        cells.paper_model,
        results.model,
        coalesce(results.share_declined, accuracies.share_declined) as share_declined,
        len(models.declines)
        + coalesce(len(prompts.declines), 0)
        + coalesce(results.share_declined, accuracies.share_declined, 0) > 0 as has_declines,
        cells.paper_prompt,
        results.prompt,
        cells.paper_size,
        results.dataset,
        datasets.chosen_by is not null as is_part,
        cells.paper_passages,
        results.method,
        case
            when cells.measure in ('quip', 'quip_gain') then 'corpus of the study'
            when not methods.is_parametric then results.method || ': ' || coalesce(passages.sources, 'unknown')
        end as passages,
        cells.note
    from cells
    inner join results using (measure, paper_key)
    inner join datasets
        on results.dataset = datasets.dataset and cells.paper_dataset in (results.dataset, datasets.relation_set)
    cross join passages
    left join models using (model)
    left join methods using (method)
    left join prompts using (prompt)
    left join accuracies
        on
            results.dataset = accuracies.dataset
            and results.prompt = accuracies.prompt
            and results.model = accuracies.model
            and results.method = accuracies.method
            and accuracies.relation = 'all'
    where results.value is not null and not coalesce(methods.is_bound, false)

)

select * from final
