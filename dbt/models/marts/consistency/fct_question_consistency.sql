with question_consistency as (select * from {{ ref('int_question_consistency') }}),

-- Empty without key nli in the study.
entailments as (select * from {{ ref('stg_generation__answer_entailments') }}),

final as (

    select
        found.dataset,
        found.prompt,
        found.question_id,
        found.relation,
        found.model,
        found.n_answers,
        found.n_empty_answers,
        found.is_correct,
        found.n_paraphrases,
        found.scons,
        -- These are the same answers if their pairs are as many.
        case
            when found.scons is not null and answered.n_pairs = found.n_answers * (found.n_answers - 1) // 2
                then answered.mean_entailment
        end as scons_entailment,
        found.identical_answers,
        found.n_samples,
        found.n_empty_samples,
        found.cert,
        case
            when found.cert is not null and sampled.n_pairs = found.n_samples * (found.n_samples - 1) // 2
                then sampled.mean_entailment
        end as cert_entailment,
        found.identical_samples,
        found.n_clusters,
        found.semantic_entropy
    from question_consistency as found
    left join entailments as answered
        on
            answered.asked = 'paraphrases'
            and found.dataset = answered.dataset
            and found.question_id = answered.question_id
            and found.model = answered.model
            and found.prompt = answered.prompt
    left join entailments as sampled
        on
            sampled.asked = 'samples'
            and found.dataset = sampled.dataset
            and found.question_id = sampled.question_id
            and found.model = sampled.model
            and found.prompt = sampled.prompt

)

select * from final
