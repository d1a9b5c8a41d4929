-- A cell and a result of this study have the same measure of the same thing; the reason is what else differs.
{%- set all, declined = {'only': "relation = 'all'"}, {'declined': 'share_declined'} %}
{%- set of_paper = 'abs(share_of_questions - 4000 / 14267) < 0.01' %}
{%- set quadrant = "if(parametric_correct, ' right_', ' wrong_') || if(retrieval_correct, 'right', 'wrong')" %}
{%- set quadrant = 'parametric_method || ' ~ quadrant %}
{%- set adaptive = 'fct_adaptive_accuracy', "parametric_method || ' ' || threshold_scope", 'n_questions' %}
{%- set exact = {'method': 'retrieval_method', 'only': "search = 'exact'"} %}
{%- set data = {'prompt': 'null', 'model': 'null', 'method': 'null'} %}
{%- set counted = 'int_wordings_by_relation', 'relation', 'n_questions' %}
{%- set fitted = "setting || ' ' || predictors" %}
{%- set quoted = {'key': 'grounding_prompt', 'prompt': 'null'} %}
{%- set selects = [
    paper_measure('fct_accuracy', 'accuracy', 'method', 'n', 'accuracy', 'ci', **dict(all, **declined)),
    paper_measure('fct_accuracy_least_popular', 'accuracy_least_popular', 'method', 'n', 'accuracy', 'ci', only=of_paper, **declined),
    paper_measure('fct_popularity_correlation', 'correlation', 'method', 'n', 'point_biserial', 'point_biserial_ci', **all),
    paper_measure('fct_retrieval_quadrants', 'recall_at_1', quadrant, 'n_known', 'recall_at_1', 'recall_at_1_ci', 'retrieval_method'),
    paper_measure('fct_retrieval_quadrants', 'share_of_questions', quadrant, 'n_questions', 'share', 'share_ci', 'retrieval_method'),
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
    paper_measure('fct_grounding_prompts', 'quip', n='n_quip', value='mean_quip', ci='quip_ci', **quoted),
    paper_measure('fct_grounding_prompts', 'end_task', n='n', value='mean_score', ci='score_ci', **quoted),
    paper_measure('fct_grounding_prompts', 'quip_gain', n='n_paired', value='quip_ratio - 1', ci='-1 + quip_ratio_ci', **quoted),
    paper_measure('fct_factual_consistency', 'pararel_accuracy', "relation || ' ' || method", 'n', 'value', 'ci', only="measure = 'accuracy'"),
] %}
with cells as (select * from {{ ref('stg_study__paper_cells') }}),
datasets as (select * from {{ ref('dim_datasets') }}),
models as (select * from {{ ref('dim_models') }}),
methods as (select * from {{ ref('dim_methods') }}),

results as (

    {{ selects | join('union all') }}

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
        cells.study,
        not coalesce(datasets.source = 'sandbox' or models.path like 'sandbox:%', false) as is_real,
        cells.measure,
        cells.paper_model,
        results.* exclude (measure, paper_key, n, value, ci_low, ci_high, share_declined),  -- noqa: RF02
        concat_ws(
            '; ',
            if(is_real, null, 'a synthetic world'),
            if(results.model = cells.paper_model, null, results.model || ' instead of ' || cells.paper_model),
            if(datasets.chosen_by is null, null, 'a part of the questions'),
            format('{:.0f} % of the answers declined', 100 * nullif(results.share_declined, 0)),
            cells.note
        ) as reason
    from cells
    inner join results using (measure, paper_key)
    inner join datasets
        on results.dataset = datasets.dataset and cells.paper_dataset in (results.dataset, datasets.relation_set)
    left join models using (model)
    left join methods using (method)
    where results.value is not null and not coalesce(methods.is_bound, false)

)

select * from final
