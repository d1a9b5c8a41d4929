{{ config(materialized='view') }}
{%- set parts = [('answers', false), ('answers', true), ('candidate_answers', false), ('candidate_answers', true)] -%}
-- A view that reads only published tables. Each query builds the texts.
with passages as (

    select
        *,
        {{ cut_text('text', 'source') }} as cut_text
    from {{ published('dim_passages') }}

),

{% for table_name, has_lists in parts -%}
{{ table_name }}_{{ 'with' if has_lists else 'without' }}_lists as (

    {{ rows_with_passages(table_name, has_lists) }}

),

{% endfor -%}
built as (
    {%- for table_name, has_lists in parts %}
    select
        '{{ table_name }}' as table_name,
        answers.dataset,
        answers.question_id,
        {% if table_name == 'candidate_answers' %}answers.paraphrase_id,{% endif %}
        answers.model,
        answers.method,
        answers.prompt,
        answers.prompt_hash,
        answers.demonstrations || {{ prompt_block('answers', 'answers.asked') }} as prompt_text,
        answers.reads_apart,
        {{ passages_apart('answers') if has_lists else 'null' }} as passages_apart
    from {{ table_name }}_{{ 'with' if has_lists else 'without' }}_lists as answers
    left join passages using (passage_id)
    left join {{ published('fct_generated_passages') }} as generated_passages using (dataset, model, passage_id)
    union all by name
    {%- endfor %}
    select
        'generated_passages' as table_name,
        generated_passages.dataset,
        generated_passages.question_id,
        generated_passages.model,
        methods.method,
        generated_passages.prompt_hash,
        {{ filled('methods.background_template', 'questions.question') }} as prompt_text
    from {{ published('fct_generated_passages') }} as generated_passages
    inner join {{ published('dim_methods') }} as methods on methods.kind = 'background'
    inner join {{ published('dim_questions') }} as questions using (dataset, question_id)
    {%- for table_name, number, asked in [
        ('paraphrase_answers', 'paraphrase_id', 'answers.paraphrase'), ('sampled_answers', 'sample', 'answers.question')
    ] %}{% for has_lists in [false, true] %}
    union all by name
    select
        '{{ table_name }}' as table_name,
        answers.dataset,
        answers.question_id,
        answers.{{ number }},
        answers.model,
        methods.method,
        answers.prompt,
        answers.prompt_hash,
        {{ demonstration_blocks(has_lists, false) }} || {{ filled('prompts.template', asked) }} as prompt_text
    from {{ published('fct_' ~ table_name) }} as answers
    inner join {{ templates() }} as prompts using (prompt, model)
    inner join {{ published('dim_methods') }} as methods on methods.kind = 'memory'
    where coalesce(len(answers.demonstration_ids) > 0, false) = {{ has_lists }}
    {%- endfor %}{% endfor %}

)

select
    * exclude (reads_apart),
    case
        when prompt_hash is null then null
        when reads_apart then coalesce({{ hash_of_texts('prompt_text', 'passages_apart') }} = prompt_hash, false)
        else coalesce(sha256(prompt_text) = prompt_hash, false)
    end as is_exact
from built
