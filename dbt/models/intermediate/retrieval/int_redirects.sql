{%- set most = 3 -%}
with redirects as (

    select
        collection,
        title,
        target_title,
        target_section
    from {{ ref('stg_retrieval__excluded_pages') }}
    where kind = 'redirect'

),

articles as (select * from {{ ref('int_known_articles') }}),

-- A redirect that leads back to itself never leads to an article.
leads_0 as (

    select
        collection,
        title,
        title as article_title,
        null::varchar as section,
        0 as n_redirects
    from articles

),

{% for number in range(1, most + 1) %}
leads_{{ number }} as (

    select
        redirects.collection,
        redirects.title,
        leads.article_title,
        coalesce(leads.section, redirects.target_section) as section,
        {{ number }} as n_redirects
    from redirects
    inner join leads_{{ number - 1 }} as leads
        on redirects.collection = leads.collection and redirects.target_title = leads.title

),

{% endfor %}

found as (

    {% for number in range(1, most + 1) %}
    {{ 'union all' if not loop.first }}
    select * from leads_{{ number }}
    {% endfor %}

),

-- A dump may have a page twice.
final as (

    select distinct on (collection, title) *
    from found
    order by collection, title, n_redirects, article_title, section

)

select * from final
