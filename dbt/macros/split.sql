{#- The key by which a split orders the questions: md5 of `split:question_id`, hexadecimal (SPEC §6). -#}
{% macro split_order(split, question_id) -%}
    md5({{ split }}::varchar || ':' || {{ question_id }})
{%- endmacro %}

{#- Number of training questions among `n` questions. Halves are rounded up. -#}
{% macro n_training(n) -%}
    floor({{ var('training_share') }} * {{ n }} + 0.5)::bigint
{%- endmacro %}
