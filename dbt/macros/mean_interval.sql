{#-
  The 95 % interval of a mean over questions: columns `value_ci_low` and `value_ci_high`. Null with fewer than five values.
  It follows from Student's t; an end is not outside the range of the measure, `least` to `most` (none = no limit), and not
  beyond the mean itself. Where each value of a measure from 0 to 1 is 0 or 1, the mean is a share: its interval is Wilson's.
  Student's would have no width if all values are equal.
-#}
{% macro mean_interval(value, least, most=none) -%}
    {{ mean_interval_end(value, 'low', '-', least, most) }} as {{ value }}_ci_low,
    {{ mean_interval_end(value, 'high', '+', least, most) }} as {{ value }}_ci_high
{%- endmacro %}

{% macro mean_interval_end(value, end, sign, least, most) -%}
    {%- set half = student_quantile('count(' ~ value ~ ') - 1') ~ ' * stddev_samp(' ~ value ~ ') / sqrt(count(' ~ value ~ '))' -%}
    {%- set reached = 'avg(' ~ value ~ ') ' ~ sign ~ ' ' ~ half -%}
    case
        when count({{ value }}) < 5 then null
        {%- if (least, most) == (0, 1) %}
        when sum({{ value }} * (1 - {{ value }})) = 0 then {{ wilson_bound('sum(' ~ value ~ ')', 'count(' ~ value ~ ')', sign) }}
        {%- endif %}
        {%- if end == 'low' %}
        else least(avg({{ value }}), greatest({{ least }}, {{ reached }}))
        {%- else %}
        else greatest(avg({{ value }}), {{ reached if most is none else 'least(' ~ most ~ ', ' ~ reached ~ ')' }})
        {%- endif %}
    end
{%- endmacro %}

{#-
  The 97.5 % quantile of Student's t: the first four terms of its Cornish-Fisher expansion (Abramowitz and Stegun, 26.7.5).
  DuckDB has no quantiles of distributions. With four degrees of freedom it is 0.3 % too small, with ten 0.003 %.
-#}
{% macro student_quantile(degrees) -%}
    {%- set z = 1.959963984540054 -%}
    {%- set terms = [
        (z ** 3 + z) / 4,
        (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96,
        (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384,
    ] -%}
    ({{ z }} {% for term in terms %} + {{ term }} / (({{ degrees }}) ** {{ loop.index }}){% endfor %})
{%- endmacro %}
