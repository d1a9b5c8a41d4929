-- Only for pairs of wordings by which something was found: few studies search by them, and there are many pairs.
with answers as (

    select
        dataset,
        question_id,
        paraphrase_id,
        model,
        {{ method_of('memory') }} as method,
        prompt,
        'text' as answer_kind,
        prediction
    from {{ ref('int_paraphrase_answers') }}
    union all by name
    select
        dataset,
        question_id,
        paraphrase_id,
        model,
        method,
        prompt,
        'candidate' as answer_kind,
        prediction
    from {{ ref('int_candidate_answers') }}
    where has_fitting_article

),

pairs as (

    select distinct
        dataset,
        question_id,
        paraphrase_id,
        other_paraphrase_id
    from {{ ref('int_wording_pairs') }}

),

final as (

    select
        one.dataset,
        one.question_id,
        one.answer_kind,
        one.model,
        one.method,
        one.prompt,
        one.paraphrase_id,
        pairs.other_paraphrase_id,
        one.prediction = other.prediction as agree
    from pairs
    inner join answers as one using (dataset, question_id, paraphrase_id)
    inner join answers as other
        on
            one.dataset = other.dataset
            and one.question_id = other.question_id
            and one.answer_kind = other.answer_kind
            and one.model = other.model
            and one.method = other.method
            and one.prompt = other.prompt
            and pairs.other_paraphrase_id = other.paraphrase_id

)

select * from final
