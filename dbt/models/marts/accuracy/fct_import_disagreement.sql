with answers as (select * from {{ ref('int_answers') }}),
imported_answers as (select * from {{ ref('stg_imports__answers') }}),

-- Only answers that the file itself judges can have different verdicts.
compared as (

    select
        answers.dataset,
        answers.prompt,
        answers.model,
        answers.method,
        answers.is_correct,
        imported_answers.is_correct as is_correct_by_file
    from answers
    inner join imported_answers using (dataset, question_id, model, method, prompt)

),

final as (

    select
        dataset,
        prompt,
        model,
        method,
        count(*) as n,
        count(is_correct_by_file) as n_judged_by_file,
        count(*) filter (where is_correct_by_file and not is_correct) as n_right_by_file_only,
        count(*) filter (where is_correct and not is_correct_by_file) as n_right_by_us_only,
        (n_right_by_file_only + n_right_by_us_only) / nullif(n_judged_by_file, 0)::double as share_disagreeing
    from compared
    group by dataset, prompt, model, method

)

select * from final
