with answers as (

    {{ with_share_of_work(ref('int_candidate_answers'), 'candidate_answers') }}

),

final as (

    select
        dataset,
        prompt,
        question_id,
        paraphrase_id,
        relation,
        paraphrase,
        gold_answer,
        subject_popularity,
        model,
        method,
        passage_ids,
        prediction,
        is_correct,
        free_generation,
        is_mismatch,
        gold_rank,
        n_candidates,
        log_likelihood,
        prediction_tokens,
        mean_log_likelihood,
        margin,
        confidence,
        has_fitting_article,
        {{ account_columns() }}
    from answers

)

select * from final
