{#-
  The 95 % interval of a mean over questions, by Student's t: columns `value_ci_low` and `value_ci_high`. Null with fewer
  than five values. An end is not outside the range of the measure, `least` to `most` (none = no limit), and not beyond
  the mean itself.
-#}
{% macro mean_interval(value, least, most=none) -%}
    {%- set half = student_quantile('count(' ~ value ~ ') - 1') ~ ' * stddev_samp(' ~ value ~ ') / sqrt(count(' ~ value ~ '))' -%}
    case
        when count({{ value }}) >= 5
            then least(avg({{ value }}), greatest({{ least }}, avg({{ value }}) - {{ half }}))
    end as {{ value }}_ci_low,
    case
        when count({{ value }}) >= 5
            then {% if most is none %}avg({{ value }}) + {{ half }}
            {%- else %}greatest(avg({{ value }}), least({{ most }}, avg({{ value }}) + {{ half }})){% endif %}
    end as {{ value }}_ci_high
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
