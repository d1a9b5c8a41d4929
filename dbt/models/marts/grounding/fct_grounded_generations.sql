with generations as (

    {{ with_share_of_work(ref('int_grounded_generations'), 'grounded_generations') }}

),

final as (

    select
        dataset,
        question_id,
        model,
        method,
        grounding_prompt,
        grounding_kind,
        steps,
        first_text,
        generation,
        answer,
        explanation,
        is_parsed,
        exact_match,
        f1,
        rouge_l,
        kilt_score,
        n_grams,
        quip,
        quip_reference,
        span_starts,
        span_ends,
        quotes,
        {{ account_columns() }}
    from generations

)

select * from final
