with final as (

    {{ popularity_window() }}

)

select * from final
