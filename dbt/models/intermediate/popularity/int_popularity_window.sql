with declared as (select * from {{ ref('stg_study__popularity_windows') }}),
page_views as (select * from {{ ref('stg_wikimedia__page_views') }}),

latest as (

    select max(month) as month
    from page_views

),

ended as (

    select
        declared.measure,
        declared.n_months,
        declared.redirects,
        declared.agent,
        coalesce(declared.last_month, latest.month) as last_month
    from declared
    cross join latest

),

final as (

    select
        measure,
        n_months,
        strftime(strptime(last_month || '-01', '%Y-%m-%d') - to_months(n_months - 1), '%Y-%m') as first_month,
        last_month,
        redirects,
        agent
    from ended

)

select * from final
