with questions as (

    select distinct
        dataset,
        question_id,
        subject,
        popularity,
        site_links,
        counts
    from {{ ref('int_signal_values') }}

),

measured as (

    {%- for measure in ['popularity', 'site_links'] %}
    select dataset, question_id, subject, '{{ measure }}' as signal, {{ measure }} as number
    from questions
    where {{ measure }} is not null
    union all
    {%- endfor %}
    select
        dataset,
        question_id,
        subject,
        unnest(map_keys(counts)) as signal,
        unnest(map_values(counts)) as number
    from questions

),

ranked as (

    select
        measured.dataset,
        measured.subject,
        measured.signal,
        others.signal as other_signal,
        {{ average_rank('measured.number', 'measured.dataset, measured.signal, others.signal') }} as own_rank,
        {{ average_rank('others.number', 'measured.dataset, measured.signal, others.signal') }} as other_rank
    from measured
    inner join measured as others using (dataset, question_id)
    where measured.signal < others.signal

),

correlated as (

    select
        dataset,
        signal,
        other_signal,
        count(*) as n,
        count(distinct subject) as n_subjects,
        round({{ correlation('own_rank', 'other_rank') }}, 12) as spearman
    from ranked
    group by dataset, signal, other_signal

),

-- Fisher's transformation, with the variance of Bonett and Wright (2000). Questions about one subject count as one.
final as (

    select
        *,
        case when n_subjects > 3 then sqrt((1 + spearman ^ 2 / 2) / (n_subjects - 3)) end * 1.959964 as half_width,
        case when abs(spearman) < 1 then atanh(spearman) end as middle,
        tanh(middle - half_width) as spearman_ci_low,
        tanh(middle + half_width) as spearman_ci_high,
        case
            when spearman is null then 'no variance'
            when n_subjects < 4 then 'fewer than 4 subjects'
            when middle is null then 'all ranks are equal or reversed'
        end as no_interval
    from correlated

)

select * exclude (half_width, middle) from final
