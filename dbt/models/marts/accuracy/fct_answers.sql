with answers as (

    select * from {{ ref('int_answers') }}

),

final as (

    select
        dataset,
        prompt,
        question_id,
        relation,
        subject_id,
        subject,
        question,
        gold_answers,
        subject_popularity,
        popularity_measure,
        n_popularity_months,
        model,
        method,
        prediction,
        raw_text,
        is_correct,
        is_correct_case_sensitive,
        is_correct_normalized,
        is_exact_match,
        token_f1,
        rouge_l,
        passage_id,
        has_answer,
        demonstration_ids,
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
