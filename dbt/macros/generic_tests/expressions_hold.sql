{#- Every expression holds in every row; where it is null it passes. A row comes once for each that it violates. -#}
{% test expressions_hold(model, expressions) %}
select *
from (
    select
        unnest([
            {%- for expression in expressions %}
            case when not ({{ expression }}) then '{{ expression | replace("'", "''") }}' end{{ ',' if not loop.last }}
            {%- endfor %}
        ]) as violated,
        *
    from {{ model }}
    where
        {%- for expression in expressions %}
        {{ 'or ' if not loop.first }}not ({{ expression }})
        {%- endfor %}
)
where violated is not null
{% endtest %}
