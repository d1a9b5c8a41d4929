with answers as (select * from {{ ref('int_answers') }}),
methods as (select * from {{ ref('stg_study__methods') }}),
consistency as (select * from {{ ref('int_question_consistency') }}),

-- Paraphrases and samples are those of the answer's own prompt, or of another prompt that asks both.
prompts as (

    select
        answers.dataset,
        answers.model,
        answers.prompt,
        consistency.prompt as signal_prompt
    from answers
    inner join consistency using (dataset, model, question_id)
    group by answers.dataset, answers.model, answers.prompt, consistency.prompt
    qualify row_number() over (
        partition by answers.dataset, answers.model, answers.prompt
        order by
            bool_or(consistency.scons is not null and consistency.cert is not null) desc,
            consistency.prompt = answers.prompt desc,
            consistency.prompt asc
    ) = 1

),

-- They are asked from memory: what they say of an answer with a passage is not known.
final as (

    select
        answers.dataset,
        answers.prompt,
        answers.model,
        answers.method,
        answers.question_id,
        answers.relation,
        answers.cluster_id as subject,
        answers.is_correct,
        answers.subject_popularity as popularity,
        case when answers.popularity_measure != 'sitelinks' then entities.sitelinks end as site_links,
        counts.counts,
        {{ confidence('answers') }} as confidence,
        answers.least_probability,
        answers.first_probability,
        answers.first_margin,
        answers.mean_entropy,
        case when methods.kind = 'memory' then consistency.scons end as scons,
        case when methods.kind = 'memory' then consistency.cert end as cert
    from answers
    left join {{ ref('stg_wikimedia__entities') }} as entities on answers.subject_id = entities.entity_id
    left join {{ ref('int_question_counts') }} as counts using (dataset, question_id)
    left join methods using (method)
    left join prompts using (dataset, model, prompt)
    left join consistency
        on
            answers.dataset = consistency.dataset
            and prompts.signal_prompt = consistency.prompt
            and answers.model = consistency.model
            and answers.question_id = consistency.question_id

)

select * from final
