-- Built from the project itself: the yml of every mart (meta.longtail), and its lineage.
with described (
    table_name, topic, kind, grain, source, description, example_query, n_columns, lake_tables
) as (

    values
    {{ catalogue_rows() }}
    (null, null, null, null, null, null, null, null, null)

),

final as (

    select
        table_name::varchar as table_name,
        topic::varchar as topic,
        kind::varchar as kind,
        grain::varchar as grain,
        source::varchar as source,
        description::varchar as description,
        example_query::varchar as example_query,
        n_columns::integer as n_columns,
        null::bigint as n_rows,
        lake_tables::varchar[] as lake_tables
    from described
    where table_name is not null

)

select * from final
