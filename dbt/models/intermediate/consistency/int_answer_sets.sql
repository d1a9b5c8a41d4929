{%- set answers = {'paraphrases': 'int_paraphrase_answers', 'samples': 'int_sampled_answers'} -%}
with answers as (
    {% for asked, model in answers.items() %}
    select
        '{{ asked }}' as asked,
        dataset,
        question_id,
        model,
        prompt,
        prediction
    from {{ ref(model) }}
    {{ 'union all' if not loop.last }}
    {%- endfor %}

),

texts as (

    select
        answers.*,
        count(*) as n
    from answers
    group by all

),

-- Lists are sorted afterwards: an ordered aggregate keeps buffers for each group, and cannot spill them.
sets as (

    select
        asked,
        dataset,
        question_id,
        model,
        prompt,
        list_sort(list(struct_pack(answer := prediction, times := n))) as distinct_answers,
        sum(n)::bigint as n_answers,
        -- Pairs of answers that are the same text, character by character; null for a single answer.
        sum(n * (n - 1)) / nullif(sum(n) * (sum(n) - 1), 0) as share_identical
    from texts
    group by asked, dataset, question_id, model, prompt

),

final as (

    select
        * exclude (distinct_answers),
        list_transform(distinct_answers, lambda one: one['answer']) as texts,
        list_transform(distinct_answers, lambda one: one['times']) as counts
    from sets

)

select * from final
