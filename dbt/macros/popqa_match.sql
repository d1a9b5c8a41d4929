{#-
  PopQA's rule (SPEC §5, longtail/scoring/match.py) for one gold answer: the prediction contains it as written, in lower
  case or capitalised. Some letters keep their case here: those whose lower or title case is longer, or whose title case
  differs from the upper case (like the German sharp s). Only for texts with such a letter can the verdict differ from
  Python's.
-#}
{% macro popqa_match(prediction, gold) -%}
    {%- set prediction, gold = comparable(prediction), comparable(gold) -%}
    (trim({{ gold }}) != '' and (
        contains({{ prediction }}, {{ gold }})
        or contains({{ prediction }}, lower({{ gold }}))
        or contains({{ prediction }}, upper(left({{ gold }}, 1)) || lower(substring({{ gold }}, 2)))
    ))
{%- endmacro %}
