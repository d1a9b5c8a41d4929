{#-
  Prompts by the rule of core/generation/prompts.py, rebuilt in SQL: what model fct_prompts is made of. A blank text has
  nothing but spaces; `trim` alone would take other white space too.
-#}

{#-
  A published table, named without its database: a view keeps the name as it is, and the file may be attached under any.
-#}
{% macro published(model) -%}
    {%- set relation = ref(model) -%}
    {{ relation if relation is string else relation.include(database=false) }}
{%- endmacro %}

{#- A template with its question; what the question holds is not searched for the placeholder again. -#}
{% macro filled(template, question) -%}
    replace({{ template }}, '{question}', {{ question }})
{%- endmacro %}

{#- What dense leaves of a passage: all but its last piece, unless that is nothing; verbalised ones stay whole. -#}
{% macro dense_text(text, source) -%}
    {%- set kept = "array_to_string(string_split(" ~ text ~ ", '. ')[:-2], '. ')" -%}
    if({{ source }} != 'verbalised' and trim({{ kept }}, ' ') != '', {{ kept }} || '.', {{ text }})
{%- endmacro %}

{#-
  The question of a row in its template, behind the row's passage; without a passage, or behind a blank one, it stands
  bare. Null where the passage is in neither of the tables that the query joins, `passages` and `generated_passages`.
-#}
{% macro prompt_block(row, question) -%}
    {%- set text -%}
        coalesce(generated_passages.text, if({{ row }}.method = 'dense', passages.dense_text, passages.text))
    {%- endset -%}
    case
        when {{ row }}.passage_id is null or trim({{ text }}, ' ') = '' then ''
        else {{ text }} || chr(10) || chr(10)
    end || {{ filled(row ~ '.template', question) }}
{%- endmacro %}

{#-
  The demonstrations of a row of `answers`, answered, each with a blank line behind it; empty without any. Where they are
  not known, or one cannot be rebuilt, null is left, rather than a wrong prompt.
-#}
{% macro demonstration_blocks() -%}
    if(answers.demonstration_ids is not null, (
        select if(count(*) = count(blocks.block), coalesce(string_agg(blocks.block, '' order by blocks.i), ''), null)
        from (
            select
                shown.i,
                {{ prompt_block('shown', 'questions.question') }}
                || ' ' || coalesce(questions.objects[1], '') || chr(10) || chr(10) as block
            from (
                select
                    answers.dataset,
                    answers.model,
                    answers.method,
                    prompts.template,
                    unnest(answers.demonstration_ids) as question_id,
                    unnest(answers.demonstration_passage_ids) as passage_id,
                    generate_subscripts(answers.demonstration_ids, 1) as i
            ) as shown
            left join {{ published('dim_questions') }} as questions
                on shown.dataset = questions.dataset and shown.question_id = questions.question_id
            left join passages on shown.passage_id = passages.passage_id
            left join {{ published('fct_generated_passages') }} as generated_passages
                on
                    shown.dataset = generated_passages.dataset
                    and shown.model = generated_passages.model
                    and shown.passage_id = generated_passages.passage_id
        ) as blocks
    ), null)
{%- endmacro %}
