{#-
  Rows of a table under the measure and key by which paper_cells names them. `more`: other columns of the
  table, with a comma before each. `value` may aggregate: the other columns group it.
-#}
{% macro paper_measure(
    table, measure, key, n, value, ci=none, method='method', model='model', prompt='prompt', only='true', more=''
) %}
    select
        '{{ measure }}' as measure,
        {{ key }} as paper_key,
        dataset,
        {{ prompt }} as prompt,
        {{ model }} as model,
        {{ method }} as method,
        {{ n }}::bigint as n,
        {{ value ~ ' as value' ~ more }},
        {{ ci ~ '_low' if ci else 'null' }} as ci_low,
        {{ ci ~ '_high' if ci else 'null' }} as ci_high
    from {{ ref(table) }}
    where {{ only }}
    group by all
{% endmacro %}

{#- All numbers of a study that a paper may have, too. -#}
{% macro paper_results() %}
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
    {{ selects | join('union all by name') }}
{% endmacro %}
