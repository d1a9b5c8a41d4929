-- A cell and a result of this study have the same measure of the same thing; other columns say what else differs.
{%- set all, attempted = {'only': "relation = 'all'"}, ', accuracy_attempted' %}
{%- set declines = {'more': ', share_declined' ~ attempted ~ attempted ~ '_ci_low' ~ attempted ~ '_ci_high'} %}
{%- set of_paper = 'abs(share_of_questions - 4000 / 14267) < 0.01' %}
{%- set quadrant = "if(parametric_correct, ' right_', ' wrong_') || if(retrieval_correct, 'right', 'wrong')" %}
{%- set quadrant = 'parametric_method || ' ~ quadrant %}
{%- set gain = 'sum(if(retrieval_correct, share, -share)) filter (where parametric_correct <> retrieval_correct)' %}
{%- set adaptive = 'fct_adaptive_accuracy', "parametric_method || ' ' || threshold_scope", 'n_questions' %}
{%- set exact = {'method': 'retrieval_method', 'only': "search = 'exact'"} %}
{%- set data = {'prompt': 'null', 'model': 'null', 'method': 'null'} %}
{%- set counted = 'int_wordings_by_relation', 'relation', 'n_questions' %}
{%- set fitted = "setting || ' ' || predictors" %}
{%- set term = "setting || ' ' || relation || ' ' || term" %}
{%- set of_relations = "predictors = 'all' and coding = 'within_relation'" %}
{%- set each = "relation <> 'all'" %}
{%- set quoted = {'key': 'grounding_prompt', 'prompt': 'null'} %}
{%- set gained = "measure = 'score_difference' and compared_with = 'null_prompt'" %}
{%- set selects = [
    paper_measure('fct_accuracy', 'accuracy', 'method', 'n', 'accuracy', 'ci', **dict(all, **declines)),
    paper_measure('fct_accuracy_least_popular', 'accuracy_least_popular', 'method', 'n', 'accuracy', 'ci', only=of_paper, **declines),
    paper_measure('fct_popularity_correlation', 'correlation', 'method', 'n', 'point_biserial', 'point_biserial_ci', **all),
    paper_measure('fct_retrieval_quadrants', 'recall_at_1', quadrant, 'n_known', 'recall_at_1', 'recall_at_1_ci', 'retrieval_method'),
    paper_measure('fct_retrieval_quadrants', 'share_of_questions', quadrant, 'n_questions', 'share', 'share_ci', 'retrieval_method'),
    paper_measure('fct_retrieval_quadrants', 'retrieval_gain', 'parametric_method', 'max(n_questions)', gain, method='retrieval_method'),
    paper_measure('fct_retrieval_recall', 'recall_at_1', 'relation', 'n', 'recall_at_1', 'recall_at_1_ci', 'retriever', 'null', 'null'),
    paper_measure(adaptive[0], 'adaptive_accuracy', adaptive[1], adaptive[2], 'accuracy_adaptive', **exact),
    paper_measure(adaptive[0], 'adaptive_gain', adaptive[1], adaptive[2], 'gain', 'gain_ci', **exact),
    paper_measure(adaptive[0], 'share_retrieved', adaptive[1], adaptive[2], 'share_retrieved', **exact),
    paper_measure('fct_entity_linking', 'share_linked', 'relation', 'n_questions', 'share_linked', 'ci', **data),
    paper_measure(counted[0], 'n_questions', counted[1], counted[2], 'n_questions', **data),
    paper_measure(counted[0], 'wordings_added', counted[1], counted[2], 'n_wordings / n_questions - 1', **data),
    paper_measure(counted[0], 'n_wordings', counted[1], counted[2], 'n_wordings', **data),
    paper_measure('fct_paraphrase_quality', 'paraphrase_quality', 'relation', 'n_paraphrases', 'mean_cosine', **data),
    paper_measure('fct_prediction_models', 'mcfadden_r2', fitted ~ " || ' ' || fit", 'n_fitted', 'mcfadden_r2', method='null'),
    paper_measure('fct_prediction_models', 'held_out_accuracy', fitted, 'n_scored', 'accuracy', 'ci', method='null'),
    paper_measure('fct_prediction_models', 'majority', fitted, 'n_scored', 'baseline', method='null'),
    paper_measure('fct_prediction_coefficients', 'odds_ratio', term, 'n_fitted', 'exp_beta', 'exp_ci', method='null', only=of_relations),
    paper_measure('fct_semantic_consistency', 'scons_lowest', "'relations'", 'sum(n_scons)', 'min(scons)', method='null', only=each),
    paper_measure('fct_semantic_consistency', 'scons_highest', "'relations'", 'sum(n_scons)', 'max(scons)', method='null', only=each),
    paper_measure('fct_grounding_prompts', 'quip', n='n_quip', value='mean_quip', ci='quip_ci', **quoted),
    paper_measure('fct_grounding_prompts', 'end_task', n='n', value='mean_score', ci='score_ci', **quoted),
    paper_measure('fct_grounding_prompts', 'quip_gain', n='n_paired', value='quip_ratio - 1', ci='-1 + quip_ratio_ci', **quoted),
    paper_measure('int_grounding_comparisons', 'end_task_gain', n='n_paired', value='value / nullif(base_value, 0)', only=gained, **quoted),
    paper_measure('fct_factual_consistency', 'pararel_accuracy', "relation || ' ' || method", 'n', 'value', 'ci', only="measure = 'accuracy'"),
] %}
with cells as (select * from {{ ref('stg_study__paper_cells') }}),
datasets as (select * from {{ ref('dim_datasets') }}),
models as (select * from {{ ref('dim_models') }}),
methods as (select * from {{ ref('dim_methods') }}),
prompts as (select * from {{ ref('dim_prompts') }}),

answered as (

    select
        dataset,
        prompt,
        model,
        method,
        share_declined
    from {{ ref('fct_accuracy') }}
    where relation = 'all'

),

passages as (

    select list_aggregate(list_sort(list(distinct coalesce(collection_source, source))), 'string_agg', ', ') as sources
    from {{ ref('dim_passages') }}

),

results as (

    {{ selects | join('union all by name') }}

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
        coalesce(results.share_declined, answered.share_declined) as share_declined,
        len(models.declines)
        + coalesce(len(prompts.declines), 0)
        + coalesce(results.share_declined, answered.share_declined, 0) > 0 as may_decline,
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
    left join models on results.model = models.model
    left join methods on results.method = methods.method
    left join prompts on results.prompt = prompts.prompt
    left join answered
        on
            results.dataset = answered.dataset
            and results.prompt = answered.prompt
            and results.model = answered.model
            and results.method = answered.method
    where results.value is not null and not coalesce(methods.is_bound, false)

)

select * from final
