with quality as (select * from {{ ref('int_signal_quality') }}),

-- A signal that is known for no answer is no row. Statistics of an earlier state of the study have other questions.
answered as (

    select
        dataset,
        prompt,
        model,
        method,
        count(*) as n_answers
    from {{ ref('int_signal_values') }}
    group by dataset, prompt, model, method

),

final as (

    select
        quality.dataset,
        quality.prompt,
        quality.model,
        quality.method,
        quality.measured_signal as signal,
        quality.n_known as n,
        answered.n_answers - quality.n_known as n_unknown,
        quality.n_known_correct as n_correct,
        quality.n_subjects,
        quality.auroc,
        quality.auroc_ci_low,
        quality.auroc_ci_high,
        quality.auroc_within,
        quality.average_precision,
        quality.brier,
        quality.calibration_error,
        quality.undefined as auroc_undefined,
        quality.no_interval,
        quality.n_draws,
        quality.chosen_signals,
        case
            when quality.auroc_ci_low > 0.5 then 'tells right from wrong'
            when quality.auroc_ci_high < 0.5 then 'worse than chance'
            when quality.auroc_ci_low is null then 'not known: ' || quality.no_interval
            else 'no better than chance'
        end as verdict
    from quality
    inner join answered using (dataset, prompt, model, method)

)

select * from final
