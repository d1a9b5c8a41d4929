{#-
  95 % intervals of whole subjects (SPEC §12). Questions on one subject depend on each other. So a mart first counts by group
  and subject (`cluster_id`), then takes the sums of a group's subjects, and writes rate and interval from these sums.

  `subject_sums` reads rows of one subject each: `y` is how many of the subject's `m` rows are right, or the sum of a measure
  over them. Its fields: k subjects, Σy, Σm, Σy², Σym, Σm².
-#}
{% macro subject_sums(y, m='n') -%}
    struct_pack(
        k := count(*) filter (where ({{ m }}) > 0),
        y := sum({{ y }})::double,
        m := sum({{ m }})::double,
        yy := sum(({{ y }})::double ** 2),
        ym := sum(({{ y }})::double * ({{ m }})),
        mm := sum(({{ m }})::double ** 2)
    )
{%- endmacro %}

{#- Counts of rows of one subject each, summed. -#}
{% macro sums(counts) -%}
    {%- for count in counts %}
    sum({{ count }})::bigint as {{ count }}{{ ',' if not loop.last }}
    {%- endfor %}
{%- endmacro %}

{#- The same fields for `n` rows that are no questions on subjects, `y` of them right: each is a cluster of its own. -#}
{% macro sums_of_independent(y, n) -%}
    struct_pack(
        k := {{ n }}, y := {{ y }}::double, m := {{ n }}::double,
        yy := {{ y }}::double, ym := {{ y }}::double, mm := {{ n }}::double
    )
{%- endmacro %}

{#- A rate with its interval: columns `name`, `ends`_low, `ends`_high; null without rows. -#}
{% macro rate(sums, name, ends=none) -%}
    {{ rate_of(sums ~ "['y']", sums ~ "['m']", sums ~ "['k']", deff(sums), name, ends) }}
{%- endmacro %}

{#- The same, `y` right of `n` rows of `k` subjects, with a known design effect. -#}
{% macro rate_of(y, n, k, deff, name, ends=none) -%}
    {{ y }} / nullif({{ n }}, 0) as {{ name }},
    {{ wilson_end(y, n, k, deff, '-') }} as {{ ends or name ~ '_ci' }}_low,
    {{ wilson_end(y, n, k, deff, '+') }} as {{ ends or name ~ '_ci' }}_high
{%- endmacro %}

{#- How many subjects a rate has, and by how much their dependence multiplies its variance (1 = not at all). -#}
{% macro subjects_and_deff(sums) -%}
    coalesce({{ sums }}['k'], 0) as n_subjects,
    {{ deff(sums) }} as deff
{%- endmacro %}

{#- With fewer than 5 subjects, or where all rows are right or all wrong: as if all rows of a subject were alike. -#}
{% macro deff(sums) -%}
    case
        when {{ sums }}['m'] > 0 then if(
            {{ sums }}['k'] < 5 or {{ sums }}['y'] in (0, {{ sums }}['m']),
            {{ sums }}['mm'] / {{ sums }}['m'],
            greatest(1, {{ squared_errors(sums) }} / ({{ sums }}['y'] * (1 - {{ sums }}['y'] / {{ sums }}['m'])))
        )
    end
{%- endmacro %}

{#- K / (K - 1) · Σ(y - p·m)² over the subjects, p = Σy / Σm. -#}
{% macro squared_errors(sums) -%}
    {{ sums }}['k'] / ({{ sums }}['k'] - 1) * greatest(
        0,
        {{ sums }}['yy'] - 2 * {{ sums }}['y'] / {{ sums }}['m'] * {{ sums }}['ym'] + ({{ sums }}['y'] / {{ sums }}['m']) ** 2 * {{ sums }}['mm']
    )
{%- endmacro %}

{#- An end of Wilson's interval of y of n, with n/deff rows and Student's quantile of k - 1 degrees; null for one subject. -#}
{% macro wilson_end(y, n, k, deff, sign) -%}
    case
        when {{ k }} > 1 and {{ n }} > 0 then list_transform(
            [{{ student_quantile(k ~ ' - 1') }} ** 2 * {{ deff }} / {{ n }}],
            lambda w: least(1, greatest(0, (
                {{ y }} / {{ n }} + w / 2 {{ sign }} sqrt(w * {{ y }} / {{ n }} * (1 - {{ y }} / {{ n }}) + w ** 2 / 4)
            ) / (1 + w)))
        )[1]
    end
{%- endmacro %}

{#- Of a measure of questions, by subject: its sum, its number, and how many values are neither 0 nor 1. -#}
{% macro subject_values(value) -%}
    sum({{ value }}) as {{ value }}_y,
    count({{ value }}) as {{ value }}_m,
    count(*) filter (where {{ value }} not in (0, 1)) as {{ value }}_n_inside
{%- endmacro %}

{% macro value_sums(value) -%}
    {{ subject_sums(value ~ '_y', value ~ '_m') }} as {{ value }}_sums,
    sum({{ value }}_n_inside) as {{ value }}_n_inside
{%- endmacro %}

{#-
  A mean with its interval by Student's t over subjects: columns `name`, `value`_ci_low, `value`_ci_high. The interval is null
  with fewer than five subjects, or where it has no width. An end is not outside the range of the measure, `least` to `most`
  (none = no limit). A measure from 0 to 1 whose values are all 0 or 1 is a share: its interval is that of a rate.
-#}
{% macro mean_of(value, name, least, most=none) -%}
    {%- set sums = value ~ '_sums' -%}
    {%- set half = student_quantile(sums ~ "['k'] - 1") ~ ' * sqrt(' ~ squared_errors(sums) ~ ') / ' ~ sums ~ "['m']" -%}
    {{ sums }}['y'] / nullif({{ sums }}['m'], 0) as {{ name }},
    {%- for end, sign in [('low', '-'), ('high', '+')] %}
    {%- set reached = sums ~ "['y'] / " ~ sums ~ "['m'] " ~ sign ~ ' half' %}
    case
        when {{ sums }}['k'] < 5 then null
        {%- if (least, most) == (0, 1) %}
        when {{ value }}_n_inside = 0 then {{ wilson_end(sums ~ "['y']", sums ~ "['m']", sums ~ "['k']", deff(sums), sign) }}
        {%- endif %}
        else list_transform(
            [{{ half }}],
            {%- if end == 'low' %}
            lambda half: if(half > 1e-9, greatest({{ least }}, {{ reached }}), null)
            {%- else %}
            lambda half: if(half > 1e-9, {{ reached if most is none else 'least(' ~ most ~ ', ' ~ reached ~ ')' }}, null)
            {%- endif %}
        )[1]
    end as {{ value }}_ci_{{ end }}{{ ',' if not loop.last }}
    {%- endfor %}
{%- endmacro %}

{#-
  The interval of a mean over pairs or other rows that belong to subjects: columns `name`_low and `name`_high. `error` is each
  subject's sum of what its rows deviate from the mean, null where it has no row; `n` is the number of all rows (the sandwich
  estimator for a ratio). Null with fewer than five subjects, or where it has no width. An end is not outside `least` to 1.
-#}
{% macro clustered_interval(value, error, n, least, name) -%}
    {%- set k = 'count(' ~ error ~ ')' -%}
    {%- set half = student_quantile(k ~ ' - 1') ~ ' * sqrt(' ~ k ~ ' / (' ~ k ~ ' - 1) * sum(' ~ error ~ ' ** 2 order by abs(' ~ error ~ '))) / ' ~ n -%}
    case when {{ k }} >= 5 and {{ half }} > 1e-9 then greatest({{ least }}, {{ value }} - {{ half }}) end as {{ name }}_low,
    case when {{ k }} >= 5 and {{ half }} > 1e-9 then least(1, {{ value }} + {{ half }}) end as {{ name }}_high
{%- endmacro %}

{#-
  The 97.5 % quantile of Student's t. DuckDB has no quantiles of distributions: up to 20 degrees of freedom they stand here,
  above them are the first five terms of the Cornish-Fisher expansion (Abramowitz and Stegun, 26.7.5), off by at most 2e-7.
-#}
{% macro student_quantile(degrees) -%}
    {%- set z = 1.959963984540054 -%}
    {%- set terms = [
        (z ** 3 + z) / 4,
        (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96,
        (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384,
        (79 * z ** 9 + 776 * z ** 7 + 1482 * z ** 5 - 1920 * z ** 3 - 945 * z) / 92160,
    ] -%}
    {%- set first = [
        12.706204736174694, 4.302652729749462, 3.1824463052837078, 2.7764451051977934, 2.5705818356363146,
        2.4469118511449786, 2.364624251592784, 2.306004135204166, 2.262157162798205, 2.228138851986274,
        2.200985160091639, 2.1788128296672284, 2.1603686564627913, 2.144786687917804, 2.131449545559776,
        2.1199052992212546, 2.1098155778333156, 2.1009220402410382, 2.0930240544083087, 2.085963447265864,
    ] -%}
    if(
        {{ degrees }} <= 20,
        [{{ first | join(', ') }}][({{ degrees }})::integer],
        {{ z }} {% for term in terms %} + {{ term }} / ({{ degrees }}) ** {{ loop.index }}{% endfor %}
    )
{%- endmacro %}
