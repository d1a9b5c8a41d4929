{#-
  The 95 % interval of a mean over rows that belong to questions, by Student's t: columns `name`_low and `name`_high. `error`
  is each question's sum of what its rows deviate from the mean, null where it has no row; `n` is the number of all rows.
  Rows of one question may depend on each other (the sandwich estimator for a ratio, clusters are questions). Null with
  fewer than five questions. An end is not outside `least` to 1.
-#}
{% macro clustered_interval(value, error, n, least, name) -%}
    {%- set m = 'count(' ~ error ~ ')' -%}
    {%- set half = student_quantile(m ~ ' - 1') ~ ' * sqrt(' ~ m ~ ' / (' ~ m ~ ' - 1) * sum(' ~ error ~ ' ** 2)) / ' ~ n -%}
    case when {{ m }} >= 5 then greatest({{ least }}, {{ value }} - {{ half }}) end as {{ name }}_low,
    case when {{ m }} >= 5 then least(1, {{ value }} + {{ half }}) end as {{ name }}_high
{%- endmacro %}
