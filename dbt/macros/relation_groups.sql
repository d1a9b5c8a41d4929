{#-
  The groups that a question counts in: that of its relation, and `all`. A question without a relation counts under `all`
  alone, so that no group of marts by relation is null; dim_datasets counts such questions.
-#}
{% macro relation_groups(relation='relation') -%}
    unnest(if({{ relation }} is null, ['all'], [{{ relation }}, 'all']))
{%- endmacro %}
