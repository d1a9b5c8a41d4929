{#- Wilson 95 % interval of a proportion, z = 1.959963984540054 (SPEC §6). Null without rows or known successes. -#}
{% macro wilson_low(n_successes, n) -%}{{ wilson_bound(n_successes, n, '-') }}{%- endmacro %}

{% macro wilson_high(n_successes, n) -%}{{ wilson_bound(n_successes, n, '+') }}{%- endmacro %}

{% macro wilson_bound(n_successes, n, sign) -%}
    {%- set z = '1.959963984540054::double' -%}
    case
        when {{ n }} > 0 and {{ n_successes }} is not null
            then least(1.0, greatest(0.0, (
                {{ n_successes }} + {{ z }} * {{ z }} / 2
                {{ sign }} {{ z }} * sqrt(
                    {{ n_successes }} * ({{ n }} - {{ n_successes }}) / {{ n }}::double + {{ z }} * {{ z }} / 4
                )
            ) / ({{ n }} + {{ z }} * {{ z }})))
    end
{%- endmacro %}
