{%- set key = 'dataset, prompt, model, parametric_method, retrieval_method, relation, binning, bin' -%}
{%- set pair = 'dataset, pairs.prompt, pairs.model, pairs.parametric_method, pairs.retrieval_method' -%}
{%- set counts = ['n', 'n_parametric_correct', 'n_retrieval_correct', 'n_helped', 'n_hurt'] -%}
with pairs as (

    select
        *,
        retrieval_correct::integer - parametric_correct::integer as difference
    from {{ ref('int_answer_pairs') }}
    where pair_id is not null

),

bins as (select * from {{ ref('int_question_binnings') }}),

subjects as (

    select
        {{ pair }},
        bins.relation,
        bins.binning,
        bins.bin,
        pairs.cluster_id,
        any_value(bins.bin_low) as bin_low,
        any_value(bins.bin_high) as bin_high,
        count(*) as n,
        count(*) filter (where pairs.parametric_correct) as n_parametric_correct,
        count(*) filter (where pairs.retrieval_correct) as n_retrieval_correct,
        count(*) filter (where pairs.difference > 0) as n_helped,
        count(*) filter (where pairs.difference < 0) as n_hurt,
        {{ subject_values('difference') }}
    from pairs
    inner join bins using (dataset, question_id)
    group by {{ pair }}, bins.relation, bins.binning, bins.bin, pairs.cluster_id

),

summed as (

    select
        {{ key }},
        any_value(bin_low) as bin_low,
        any_value(bin_high) as bin_high,
        count(*) as n_subjects,
        {{ sums(counts) }},
        {{ value_sums('difference') }}
    from subjects
    group by {{ key }}

),

measured as (

    select
        * exclude (difference_sums, difference_n_inside),
        n_parametric_correct / n as parametric_accuracy,
        n_retrieval_correct / n as retrieval_accuracy,
        {{ mean_of('difference', 'difference', -1, 1) }},
        case
            when n_subjects < 20 then 'fewer than 20 subjects'
            when n_helped + n_hurt < 10 then 'fewer than 10 questions decide it'
            when difference_ci_low is null then 'all subjects are alike'
        end as no_interval
    from summed

),

final as (

    select
        * exclude (difference_ci_low, difference_ci_high),
        if(no_interval is null, difference_ci_low, null) as ci_low,
        if(no_interval is null, difference_ci_high, null) as ci_high,
        case when ci_low > 0 then 'helps' when ci_high < 0 then 'hurts' end as effect
    from measured

)

select * from final
