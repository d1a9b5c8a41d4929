{%- set pair = 'dataset, prompt, comparison, model_a, method_a, model_b, method_b' -%}
{%- set counts = ['n_both', 'n_a_only', 'n_b_only', 'n_neither'] -%}
-- The sides of a pair are in alphabetical order. Pairs without a common question keep their row.
with answers as (select * from {{ ref('int_answers') }}),
groups as (select distinct dataset, prompt, model, method from answers),  -- noqa: LT09

pairs as (

    select
        one.dataset,
        one.prompt,
        if(one.model = other.model, 'methods', 'models') as comparison,
        one.model as model_a,
        one.method as method_a,
        other.model as model_b,
        other.method as method_b
    from groups as one
    inner join groups as other
        on
            one.dataset = other.dataset and one.prompt = other.prompt
            and (one.model, one.method) < (other.model, other.method)
            and (one.model = other.model or one.method = other.method)

),

by_subject as (

    select
        pairs.*,
        a.cluster_id,
        count(b.question_id) as n_questions,
        count(*) filter (where a.is_correct and b.is_correct) as n_both,
        count(*) filter (where a.is_correct and not b.is_correct) as n_a_only,
        count(*) filter (where b.is_correct and not a.is_correct) as n_b_only,
        count(*) filter (where not a.is_correct and not b.is_correct) as n_neither
    from pairs
    inner join answers as a
        on
            pairs.dataset = a.dataset and pairs.prompt = a.prompt
            and pairs.model_a = a.model and pairs.method_a = a.method
    left join answers as b
        on
            pairs.dataset = b.dataset and pairs.prompt = b.prompt
            and pairs.model_b = b.model and pairs.method_b = b.method
            and a.question_id = b.question_id
    group by all

),

-- A bootstrap of subjects needs no more of a subject than these two numbers.
by_kind as (

    select
        {{ pair }},
        n_a_only - n_b_only as difference,
        n_questions,
        count(*) as n_subjects,
        {{ sums(counts) }}
    from by_subject
    group by all

),

final as (

    select
        {{ pair }},
        sum(n_questions * n_subjects)::bigint as n,
        coalesce(sum(n_subjects) filter (where n_questions > 0), 0)::bigint as n_subjects,
        {{ sums(counts) }},
        coalesce(
            list(struct_pack(difference, n_questions, n_subjects) order by difference, n_questions)
            filter (where n_questions > 0), []
        ) as subjects
    from by_kind
    group by {{ pair }}

)

select * from final
