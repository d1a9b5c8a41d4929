with answers as (

    select * from {{ ref('int_paraphrase_answers') }}

),

final as (

    select
        one.dataset,
        one.question_id,
        one.model,
        one.prompt,
        one.paraphrase_id,
        other.paraphrase_id as other_paraphrase_id,
        one.prediction = other.prediction as agree
    from answers as one
    inner join answers as other
        on
            one.dataset = other.dataset
            and one.question_id = other.question_id
            and one.model = other.model
            and one.prompt = other.prompt
            and one.paraphrase_id < other.paraphrase_id

)

select * from final
