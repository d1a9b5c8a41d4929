{%- set answers = {'paraphrases': 'int_paraphrase_answers', 'samples': 'int_sampled_answers'} -%}
with embeddings as (

    select * from {{ ref('stg_generation__answer_embeddings') }}

),

answers as (
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

-- Equal answers are embedded and compared once, weighted by the number of their pairs.
texts as (

    select
        answers.*,
        count(*) as n
    from answers
    group by all

),

embedded as (

    select
        texts.*,
        embeddings.embedding
    from texts
    inner join embeddings on texts.prediction = embeddings.text

),

pairs as (

    select
        one.asked,
        one.dataset,
        one.question_id,
        one.model,
        one.prompt,
        array_cosine_similarity(one.embedding, other.embedding)::double as similarity,
        if(one.prediction = other.prediction, one.n * (one.n - 1) // 2, one.n * other.n) as n
    from embedded as one
    inner join embedded as other
        using (asked, dataset, question_id, model, prompt)
    where one.prediction <= other.prediction

),

final as (

    select
        asked,
        dataset,
        question_id,
        model,
        prompt,
        sum(similarity * n) / sum(n) as mean_similarity,
        sum(n)::bigint as n_pairs
    from pairs
    where n > 0
    group by asked, dataset, question_id, model, prompt

)

select * from final
