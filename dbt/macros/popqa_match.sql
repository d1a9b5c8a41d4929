{#-
  PopQA's rule (SPEC §5, core/scoring/match.py) for one gold answer: as written, lower-cased or capitalised it is part of
  the prediction. Letters whose lower or title case is longer, or another than the upper one (as of the German sharp s),
  keep the case they are given here: only a text that holds such a letter can be judged otherwise than in Python.
-#}
{% macro popqa_match(prediction, gold) -%}
    (trim({{ gold }}) != '' and (
        contains({{ prediction }}, {{ gold }})
        or contains({{ prediction }}, lower({{ gold }}))
        or contains({{ prediction }}, upper(left({{ gold }}, 1)) || lower(substring({{ gold }}, 2)))
    ))
{%- endmacro %}
