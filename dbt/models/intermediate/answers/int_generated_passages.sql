with final as (

    {{ without_doubles(ref('stg_generation__generated_passages'), 'dataset, question_id, model', text='text') }}

)

select * from final
