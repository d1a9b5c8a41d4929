{%- set pair = 'dataset, prompt, comparison, model_a, method_a, model_b, method_b' -%}
{%- set counts = ['n_both', 'n_a_only', 'n_b_only', 'n_neither'] -%}
-- The sides of a pair are in alphabetical order. Pairs without a common question keep their row.
with subjects as (select * from {{ ref('int_answered_subjects') }}),
groups as (select distinct dataset, prompt, model, method, group_id from subjects),  -- noqa: LT09

pairs as (

    select
        one.dataset,
        one.prompt,
        if(one.model = other.model, 'methods', 'models') as comparison,
        one.model as model_a,
        one.method as method_a,
        other.model as model_b,
        other.method as method_b,
        one.group_id as group_a,
        other.group_id as group_b
    from groups as one
    inner join groups as other
        on
            one.dataset = other.dataset and one.prompt = other.prompt
            and (one.model, one.method) < (other.model, other.method)
            and (one.model = other.model or one.method = other.method)

),

-- A bootstrap of subjects needs no more of a subject than the difference and the number of its questions. The join is
-- by subject: it gives a row for each subject of each pair, 500 million for 100 models, which are counted as they come.
by_kind as (
    {%- for shared, compared in [('method', 'model'), ('model', 'method')] %} {{ 'union all' if not loop.first }}
    select
        a.group_id as group_a,
        b.group_id as group_b,
        bit_count(a.correct & b.answered) - bit_count(a.answered & b.correct) as difference,
        bit_count(a.answered & b.answered) as n_questions,
        count(*) as n_subjects,
        sum(bit_count(a.correct & b.correct)) as n_both,
        sum(bit_count(a.correct & b.answered & ~b.correct)) as n_a_only,
        sum(bit_count(b.correct & a.answered & ~a.correct)) as n_b_only,
        sum(bit_count(a.answered & b.answered & ~(a.correct | b.correct))) as n_neither
    from subjects as a
    inner join subjects as b
        on
            a.subject = b.subject and a.prompt = b.prompt and a.{{ shared }} = b.{{ shared }}
            and a.{{ compared }} < b.{{ compared }}
    group by all
    {%- endfor %}

),

counted as (

    select
        pairs.*,
        by_kind.* exclude (group_a, group_b)
    from pairs
    left join by_kind using (group_a, group_b)

),

final as (

    select
        {{ pair }},
        coalesce(sum(n_questions * n_subjects), 0)::bigint as n,
        coalesce(sum(n_subjects) filter (where n_questions > 0), 0)::bigint as n_subjects,
        {%- for count in counts %}
        coalesce(sum({{ count }}), 0)::bigint as {{ count }},
        {%- endfor %}
        coalesce(
            list(struct_pack(difference, n_questions, n_subjects) order by difference, n_questions)
            filter (where n_questions > 0), []
        ) as subjects
    from counted
    group by {{ pair }}

)

select * from final
