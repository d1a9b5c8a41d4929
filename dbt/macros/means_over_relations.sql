{#-
  Rates of facts (SPEC §8): numerators and denominators are summed within a relation; then every relation counts alike.
  `measures`: a relation with `key`, relation, measure, numerator and denominator, one row per fact. The result has a row
  per key, relation and measure, and relation 'all' for the mean over relations.
  Fractions are added in a fixed order, because the last digit of their sum depends on it.
-#}
{% macro means_over_relations(measures, key) -%}
    with by_relation as (

        select
            {{ key }},
            relation,
            measure,
            count(*) filter (where denominator > 0) as n_facts,
            sum(denominator) as n,
            sum(numerator order by numerator) / nullif(sum(denominator), 0) as value
        from {{ measures }}
        group by {{ key }}, relation, measure

    )

    select
        *,
        (n > 0)::bigint as n_relations
    from by_relation
    union all by name
    select
        {{ key }},
        'all' as relation,
        measure,
        sum(n_facts)::bigint as n_facts,
        sum(n) as n,
        avg(value order by value) as value,
        count(value) as n_relations
    from by_relation
    group by {{ key }}, measure
{%- endmacro %}
