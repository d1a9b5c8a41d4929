with source as (

    select * from {{ source('lake', 'candidate_answers') }}
    where {{ is_declared(['dataset', 'model', 'method', 'prompt'], generations='candidates') }}

),

final as (

    select
        dataset,
        question_id,
        paraphrase_id,
        model,
        method,
        prompt,
        passage_ids,
        prediction,
        log_likelihood,
        prediction_tokens,
        mean_log_likelihood,
        margin,
        confidence,
        gold_rank,
        n_candidates,
        is_correct,
        free_generation,
        is_mismatch,
        {{ account_columns() }},
        {{ generation_key() }} as generation_key
    from source

)

select * from final
