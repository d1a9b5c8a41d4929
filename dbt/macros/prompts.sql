{#-
  Prompts by the rule of longtail/generation/prompts, rebuilt in SQL for model fct_prompts. A blank text has nothing but
  spaces; `trim` alone would take other white space too.
-#}

{#-
  A published table, named without its database. A view stores the name, and the file may be attached under any name.
-#}
{% macro published(model) -%}
    {%- set relation = ref(model) -%}
    {{ relation if relation is string else relation.include(database=false) }}
{%- endmacro %}

{#- The template of each prompt for each model: encoder-decoders may have another. -#}
{% macro templates() -%}
    (
        select
            models.model,
            models.n_passages,
            prompts.prompt,
            prompts.format,
            if(models.is_encoder_decoder, prompts.encoder_decoder_template, prompts.template) as template
        from {{ published('dim_prompts') }} as prompts
        cross join {{ published('dim_models') }} as models
    )
{%- endmacro %}

{#- What a model reads of a cloze query: its words before [Y], or all of it with a sentinel for [Y]. -#}
{% macro cloze_as_read(cloze, format) -%}
    {%- set before = "split_part(" ~ cloze ~ ", '[Y]', 1)" -%}
    {%- set behind = "substr(" ~ cloze ~ ", length(" ~ before ~ ") + 4)" -%}
    rtrim({{ before }}, ' ') || if({{ format }} = 'cloze_t5', '<extra_id_0>' || {{ behind }}, '')
{%- endmacro %}

{#- A template with its question. A placeholder inside the question is not replaced. -#}
{% macro filled(template, question) -%}
    replace({{ template }}, '{question}', {{ question }})
{%- endmacro %}

{#- A passage without its last piece, if that leaves anything. Verbalised passages stay whole. -#}
{% macro cut_text(text, source) -%}
    {%- set kept = "array_to_string(string_split(" ~ text ~ ", '. ')[:-2], '. ')" -%}
    if({{ source }} != 'verbalised' and trim({{ kept }}, ' ') != '', {{ kept }} || '.', {{ text }})
{%- endmacro %}

{#-
  The question of a row in its template, after the passage of the row. A question without a passage, or with a blank
  one, appears alone. Null if neither `passages` nor `generated_passages`, which the query joins, has the passage.
-#}
{% macro prompt_block(row, question) -%}
    {%- set text -%}
        coalesce(generated_passages.text, if({{ row }}.cuts_last_sentence, passages.cut_text, passages.text))
    {%- endset -%}
    case
        when {{ row }}.passage_id is null or trim({{ text }}, ' ') = '' then ''
        else {{ text }} || chr(10) || chr(10)
    end || {{ filled(row ~ '.template', question) }}
{%- endmacro %}

{#-
  The rows of a table that asks by every method, with what their prompts are made of: either those whose prompts are made of
  lists (demonstrations, or passages that the model reads apart; `passage_id` is null then), or all others, which need no
  subquery for each row. Prompts of imported rows were built elsewhere and cannot be rebuilt.
-#}
{% macro rows_with_passages(table_name, has_lists) -%}
    {%- set is_cloze = table_name == 'candidate_answers' -%}
    {%- set reads_apart = "(prompts.n_passages > 0 and methods.kind = 'retrieval')" -%}
    {%- set lists = reads_apart ~ ('' if is_cloze else ' or len(answers.demonstration_ids) > 0') -%}
    select
        answers.*{{ '' if is_cloze else ' exclude (passage_id)' }},
        if({{ reads_apart }}, null, answers.{{ 'passage_ids[1]' if is_cloze else 'passage_id' }}) as passage_id,
        {{ reads_apart }} as reads_apart,
        prompts.template,
        methods.cuts_last_sentence,
        {{ cloze_as_read('answers.paraphrase', 'prompts.format') if is_cloze else 'answers.question' }} as asked,
        {{ "''" if is_cloze else demonstration_blocks(has_lists) }} as demonstrations
    from {{ published('fct_' ~ table_name) }} as answers
    inner join {{ templates() }} as prompts using (prompt, model)
    inner join {{ published('dim_methods') }} as methods using (method)
    where answers.engine != 'imported' and coalesce({{ lists }}, false) = {{ has_lists }}
{%- endmacro %}

{#- The passages of a row as a model reads them apart from the question; null if it reads none so, or one is missing. -#}
{% macro passages_apart(row) -%}
    if({{ row }}.reads_apart, (
        select if(count(*) = count(texts.text), list(texts.text order by texts.i), null)
        from (
            select
                own.i,
                'title: ' || passages.title || ' context: '
                || if({{ row }}.cuts_last_sentence, passages.cut_text, passages.text) as text
            from (
                select
                    unnest({{ row }}.passage_ids) as passage_id,
                    generate_subscripts({{ row }}.passage_ids, 1) as i
            ) as own
            left join passages using (passage_id)
        ) as texts
    ), null)
{%- endmacro %}

{#- The hash of a text and of passages apart from it: see `ModelInput.hash`. Null without passages. -#}
{% macro hash_of_texts(text, passages) -%}
    sha256(
        sha256({{ text }}) || chr(10)
        || array_to_string(list_transform({{ passages }}, lambda passage: sha256(passage)), chr(10))
    )
{%- endmacro %}

{#-
  The demonstrations of a row of `answers` with their answers, each followed by a blank line; empty without any. Null if
  they are not known or one cannot be rebuilt, because a wrong prompt would be worse. Tables that ask without passages
  have no column of demonstrations' passages. `has_lists`: whether rows may have demonstrations; those that have none
  need no subquery.
-#}
{% macro demonstration_blocks(has_lists, with_passages=true) -%}
    if(answers.demonstration_ids is not null, {% if not has_lists %}''{% else %}(
        select if(count(*) = count(blocks.block), coalesce(string_agg(blocks.block, '' order by blocks.i), ''), null)
        from (
            select
                shown.i,
                {{ prompt_block('shown', 'questions.question') }}
                || ' ' || coalesce(questions.objects[1], questions.gold_answers[1], '') || chr(10) || chr(10) as block
            from (
                select
                    answers.dataset,
                    answers.model,
                    methods.cuts_last_sentence,
                    prompts.template,
                    unnest(answers.demonstration_ids) as question_id,
                    {% if with_passages %}unnest(answers.demonstration_passage_ids){% else %}null{% endif %} as passage_id,
                    generate_subscripts(answers.demonstration_ids, 1) as i
            ) as shown
            left join {{ published('dim_questions') }} as questions using (dataset, question_id)
            left join passages on shown.passage_id = passages.passage_id
            left join {{ published('fct_generated_passages') }} as generated_passages
                on
                    shown.dataset = generated_passages.dataset
                    and shown.model = generated_passages.model
                    and shown.passage_id = generated_passages.passage_id
        ) as blocks
    ){% endif %}, null)
{%- endmacro %}
