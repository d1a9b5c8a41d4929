{#-
  Mean pairwise cosine of `n` answers (SPEC §7): null under two of them, where one of the `n_asked` is missing, or where
  one is not embedded, which shows in the number of pairs.
-#}
{% macro int_sim(n, n_asked, similarities) -%}
    case
        when {{ n }} >= 2 and {{ n }} = {{ n_asked }} and {{ similarities }}.n_pairs = {{ n }} * ({{ n }} - 1) // 2
            then {{ similarities }}.mean_similarity
    end
{%- endmacro %}
