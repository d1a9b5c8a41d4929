{#-
  The result of each node's last run, kept in the build beside the tables (schema audit). Publishing reads it and
  refuses a build with failed tests, whichever command ran them, and a build whose run was killed. The number of the run
  that built a model, and the models that it read, show which models are older than their parents: a clock may be set back.
-#}
{% macro start_audit() -%}
    create schema if not exists audit;
    create table if not exists audit.invocations (
        invocation_id varchar, dbt_version varchar, started_at timestamptz, finished_at timestamptz, number bigint
    );
    alter table audit.invocations add column if not exists number bigint;
    create table if not exists audit.results (
        unique_id varchar primary key, resource_type varchar, name varchar, status varchar, message varchar,
        invocation_id varchar
    );
    alter table audit.results add column if not exists built_in bigint;
    alter table audit.results add column if not exists upstream varchar[];
    create table if not exists audit.inputs (unique_id varchar primary key, inputs varchar);
    -- After a killed run it is not known which models it rebuilt, but for those that it did not select.
    update audit.results set status = 'not known', message = 'not known since a dbt run was killed', built_in = null
    where
        exists (from audit.invocations where finished_at is null)
        and unique_id not in (select inputs.unique_id from audit.inputs as inputs);
    {%- if execute %}
    -- What nodes were made from (longtail/warehouse/reuse.py). What this run builds keeps no record, nor what is gone.
    delete from audit.inputs
    where
        unique_id in (''{{ quoted(selected_resources) }})
        or unique_id not in (''{{ quoted(graph.nodes.keys()) }});
    {%- endif %}
    insert into audit.invocations (invocation_id, dbt_version, started_at, number)
    select '{{ invocation_id }}', '{{ dbt_version }}', now(), coalesce(max(number), 0) + 1 from audit.invocations;
{%- endmacro %}

{% macro finish_audit(results) -%}
    {%- if execute -%}
    {%- set known = graph.nodes.keys() | list + graph.get('unit_tests', {}).keys() | list -%}
    {%- set models = graph.nodes.values() | selectattr('resource_type', 'equalto', 'model') | map(attribute='unique_id') | list -%}
    {#- One statement for all results: hundreds of statements would be synced to the disk one by one. -#}
    insert or replace into audit.results (unique_id, resource_type, name, status, message, invocation_id, built_in, upstream)
    select
        unique_id, resource_type, name, status, message, invocation_id,
        (select number from audit.invocations where invocation_id = '{{ invocation_id }}'), upstream::varchar[]
    from (values
        {%- for result in results if result.node is defined and result.node.resource_type != 'operation' %}
        (
            '{{ result.node.unique_id }}', '{{ result.node.resource_type }}', '{{ result.node.name }}',
            '{{ result.status }}', '{{ message_of(result) | replace("'", "''") }}', '{{ invocation_id }}',
            {{ graph.nodes.get(result.node.unique_id, {}).get('depends_on', {}).get('nodes', []) | select('in', models) | list }}
        ),
        {%- endfor %}
        (null, null, null, null, null, null, null)
    ) as ended (unique_id, resource_type, name, status, message, invocation_id, upstream)
    where unique_id is not null;
    insert or ignore into audit.results (unique_id, resource_type, name, status, message, invocation_id)
    select * from (values
        {%- for node in graph.nodes.values() if node.resource_type == 'model' %}
        ('{{ node.unique_id }}', 'model', '{{ node.name }}', 'not built yet', null, '{{ invocation_id }}'),
        {%- endfor %}
        (null, null, null, null, null, null)
    ) as known (unique_id, resource_type, name, status, message, invocation_id)
    where unique_id is not null;
    delete from audit.results
    where unique_id not in (''{{ quoted(known) }});
    update audit.invocations set finished_at = now() where invocation_id = '{{ invocation_id }}';
    delete from audit.invocations
    where coalesce(number, 0) < (select max(number) from audit.invocations where finished_at is not null);
    {%- endif -%}
{%- endmacro %}

{#- Texts as literals, each after a comma. -#}
{% macro quoted(texts) -%}
    {%- for text in texts %}, '{{ text }}'{% endfor -%}
{%- endmacro %}

{#- dbt's message about a node. Of a table that is not valid it names the broken rules instead, also in dbt's log. -#}
{% macro message_of(result) -%}
    {%- set told = [] -%}
    {%- if result.status in ('fail', 'warn') and (result.node.test_metadata or {}).name == 'table_is_valid' -%}
        {%- for rule, n_rows, example in run_query(result.node.compiled_code).rows -%}
            {%- do told.append(rule ~ ' does not hold in ' ~ n_rows ~ ' rows' ~ (', such as ' ~ example if example else '')) -%}
        {%- endfor -%}
        {%- do log(result.node.name ~ ': ' ~ told | join('; '), info=true) -%}
    {%- endif -%}
    {{ return((told | join('; ') or result.message or '') | string) }}
{%- endmacro %}
