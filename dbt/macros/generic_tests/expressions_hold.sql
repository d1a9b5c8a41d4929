{#- Every expression is true in every row; null passes. A row appears once for each expression that it violates. -#}
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
