{#- The text in which every rule compares: NFC, without invisible marks (SPEC §5, longtail/scoring/match.py). -#}
{% macro comparable(text) -%}
    nfc_normalize(regexp_replace(
        {{ text }},
        '[\x{00AD}\x{200B}-\x{200F}\x{202A}-\x{202E}\x{2060}-\x{2064}\x{2066}-\x{2069}\x{FEFF}]',
        '',
        'g'
    ))
{%- endmacro %}
