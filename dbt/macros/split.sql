{#- The key by which a split orders questions or subjects: md5 of `split:id`, hexadecimal (SPEC §6). -#}
{% macro split_order(split, id) -%}
    md5({{ split }}::varchar || ':' || {{ id }})
{%- endmacro %}

{#- Number of training questions among `n` questions. Halves are rounded up. -#}
{% macro n_training(n) -%}
    floor({{ var('training_share') }} * {{ n }} + 0.5)::bigint
{%- endmacro %}
