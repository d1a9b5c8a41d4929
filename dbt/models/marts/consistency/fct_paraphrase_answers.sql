with answers as (

    select * from {{ ref('int_paraphrase_answers') }}

),

final as (

    select
        dataset,
        prompt,
        question_id,
        paraphrase_id,
        relation,
        paraphrase,
        subject_popularity,
        model,
        prediction,
        raw_text,
        is_correct,
        is_correct_case_sensitive,
        is_correct_normalized,
        is_exact_match,
        token_f1,
        rouge_l,
        prompt_hash,
        prompt_tokens,
        new_tokens,
        n_truncated_tokens,
        latency_ms,
        batch_size,
        cost_usd,
        engine,
        revision,
        dtype,
        quantisation,
        seed,
        is_reused,
        run_id,
        code_version
    from answers

)

select * from final
