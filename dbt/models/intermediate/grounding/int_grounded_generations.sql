{%- set scored = 'dataset, question_id, model, method, prompt, text_from' -%}
with generations as (

    {{ without_doubles(
        ref('stg_generation__grounded_generations'),
        'dataset, question_id, model, method, grounding_prompt',
        'generation'
    ) }}

),

first_steps as (

    {{ without_doubles(
        ref('stg_generation__grounded_answers'), 'dataset, question_id, model, method', 'raw_text'
    ) }}

),

scores as (

    select distinct on ({{ scored }}) * from {{ ref('stg_grounding__quip_scores') }}
    where text_from = 'grounded_generations'

),

final as (

    select
        generations.*,
        case when generations.steps = 2 then first_steps.raw_text end as first_text,
        case when generations.is_parsed then scores.n_grams end as n_grams,
        scores.quip,
        scores.quip_reference,
        scores.span_starts,
        scores.span_ends,
        scores.span_first_grams,
        scores.span_grams,
        {{ parts_of('generations.explanation', 'scores.span_starts', 'scores.span_ends') }} as quotes
    from generations
    left join first_steps using (dataset, question_id, model, method)
    left join scores
        on
            generations.dataset = scores.dataset
            and generations.question_id = scores.question_id
            and generations.model = scores.model
            and generations.method = scores.method
            and generations.grounding_prompt = scores.prompt

)

select * from final
