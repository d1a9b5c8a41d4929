{#- An expression holds in every row; where it is null it passes. -#}
{% test expression_holds(model, expression) %}
select *
from {{ model }}
where not ({{ expression }})
{% endtest %}
