{#- Values lie in [low, high]; nulls pass, NaN does not (it is greater than any number). -#}
{% test in_range(model, column_name, low=none, high=none) %}
select {{ column_name }}
from {{ model }}
where
    isnan({{ column_name }}::double)
    {%- if low is not none %} or {{ column_name }} < {{ low }}{% endif %}
    {%- if high is not none %} or {{ column_name }} > {{ high }}{% endif %}
{% endtest %}
