{#-
  A measure of `n` answers (SPEC §7): their mean pairwise cosine, or another `value` of the same answers. Null with fewer
  than two answers, if one of the `n_asked` is missing, or if one is not embedded; the number of pairs shows the last
  case.
-#}
{% macro int_sim(n, n_asked, similarities, value='mean_similarity') -%}
    case
        when {{ n }} >= 2 and {{ n }} = {{ n_asked }} and {{ similarities }}.n_pairs = {{ n }} * ({{ n }} - 1) // 2
            then {{ similarities }}.{{ value }}
    end
{%- endmacro %}
