with source as (

    select * from {{ source('lake', 'correlation_intervals') }}
    where {{ is_declared(['dataset', 'prompt', 'model', 'method'], generations='questions') }}

),

final as (

    select
        dataset,
        prompt,
        model,
        method,
        relation,
        n_answers,
        n_within,
        n_resamples,
        point_biserial_low,
        point_biserial_high,
        spearman_low,
        spearman_high,
        undefined_unbinned,
        point_biserial_within_low,
        point_biserial_within_high,
        spearman_within_low,
        spearman_within_high,
        undefined_within
    from source

)

select * from final
