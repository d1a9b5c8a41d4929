{#-
  Medians of `value` by `key`, with their 95 % intervals between two order statistics: x(r) and x(n + 1 - r) for the
  greatest r with P(Binomial(n, 1/2) < r) ≤ 0.025. This makes no assumptions about the distribution. The interval covers
  95 % or more, and is null below six values. `also`: further aggregates.
-#}
{% macro medians(relation, key, value, also=[]) -%}
    select
        {{ key }},
        count(*) as n,
        median({{ value }}) as median_ms,
        quantile_cont({{ value }}, 0.95) as p95_ms,
        max({{ value }}) filter (where mass_below <= 0.025) as ci_low,
        min({{ value }}) filter (where mass_above <= 0.025) as ci_high
        {%- for aggregate in also %},
        {{ aggregate }}
        {%- endfor %}
    from (
        select
            *,
            sum({{ coin_mass('place - 1') }}) over (partition by {{ key }} order by place) as mass_below,
            sum({{ coin_mass('place') }}) over (partition by {{ key }} order by place desc) as mass_above
        from (
            select
                *,
                row_number() over (partition by {{ key }} order by {{ value }}) as place,
                count(*) over (partition by {{ key }}) as n_values
            from {{ relation }}
        )
    )
    group by {{ key }}
{%- endmacro %}

{#- The probability of exactly `heads` heads in n_values throws of a coin. -#}
{% macro coin_mass(heads) -%}
    exp(
        lgamma(n_values + 1) - lgamma({{ heads }} + 1) - lgamma(n_values - ({{ heads }}) + 1) - n_values * ln(2)
    )
{%- endmacro %}
