{# Schemas, relations and columns, from information_schema. The comments are those of DuckDB's functions. #}

{% macro freestone__information_schema_name(database) -%}
  information_schema
{%- endmacro %}

{% macro freestone__list_schemas(database) -%}
  {{ return(run_query("select schema_name from information_schema.schemata")) }}
{%- endmacro %}

{% macro freestone__check_schema_exists(information_schema, schema) -%}
  {{ return(run_query("select count(*) from information_schema.schemata where schema_name = " ~ freestone_text(schema))) }}
{%- endmacro %}

{% macro freestone__list_relations_without_caching(schema_relation) -%}
  {% call statement('list_relations_without_caching', fetch_result=True) -%}
    select
      table_catalog as database,
      table_name as name,
      table_schema as schema,
      case table_type when 'VIEW' then 'view' when 'MATERIALIZED VIEW' then 'materialized_view' else 'table' end as type
    from information_schema.tables
    where table_schema = {{ freestone_text(schema_relation.schema) }}
  {%- endcall %}
  {{ return(load_result('list_relations_without_caching').table) }}
{%- endmacro %}

{% macro freestone__get_columns_in_relation(relation) -%}
  {% set found %}
    select 1 from information_schema.tables
    where table_name = {{ freestone_text(relation.identifier) }} and table_schema = {{ freestone_text(relation.schema or 'pg_temp') }}
  {% endset %}
  {% set columns = [] %}
  {% if run_query(found) | length %}
    {% for row in run_query('describe ' ~ relation.render()) %}
      {% do columns.append(api.Column(row[0], row[1])) %}
    {% endfor %}
  {% endif %}
  {{ return(columns) }}
{%- endmacro %}

{% macro freestone__get_catalog(information_schema, schemas) -%}
  {% set names = [] %}
  {% for schema in schemas %}
    {% do names.append('lower(tables.table_schema) = ' ~ freestone_text(schema | lower)) %}
  {% endfor %}
  {{ return(freestone_catalog(names)) }}
{%- endmacro %}

{% macro freestone__get_catalog_relations(information_schema, relations) -%}
  {% set names = [] %}
  {% for relation in relations %}
    {% set schema = 'lower(tables.table_schema) = ' ~ freestone_text(relation.schema | lower) %}
    {% if relation.identifier %}
      {% do names.append('(' ~ schema ~ ' and lower(tables.table_name) = ' ~ freestone_text(relation.identifier | lower) ~ ')') %}
    {% else %}
      {% do names.append(schema) %}
    {% endif %}
  {% endfor %}
  {{ return(freestone_catalog(names)) }}
{%- endmacro %}

{% macro freestone_catalog(conditions) -%}
  {% set query %}
    with comments as (
      select case schema_name when 'main' then 'public' else schema_name end as schema_name, table_name, comment from duckdb_tables()
      union all
      select case schema_name when 'main' then 'public' else schema_name end, view_name, comment from duckdb_views()
    ),
    column_comments as (
      select case schema_name when 'main' then 'public' else schema_name end as schema_name, table_name, column_name, comment
      from duckdb_columns()
    )
    select
      tables.table_catalog as table_database,
      tables.table_schema,
      tables.table_name,
      case when tables.table_type in ('VIEW', 'MATERIALIZED VIEW') then tables.table_type else 'BASE TABLE' end as table_type,
      comments.comment as table_comment,
      columns.column_name,
      columns.ordinal_position as column_index,
      columns.data_type as column_type,
      column_comments.comment as column_comment,
      cast(null as varchar) as table_owner
    from information_schema.tables as tables
    join information_schema.columns as columns
      on columns.table_schema = tables.table_schema and columns.table_name = tables.table_name
    left join comments
      on comments.schema_name = tables.table_schema and comments.table_name = tables.table_name
    left join column_comments
      on column_comments.schema_name = tables.table_schema and column_comments.table_name = tables.table_name
      and column_comments.column_name = columns.column_name
    where {{ conditions | join(' or ') if conditions else 'false' }}
    order by tables.table_schema, tables.table_name, columns.ordinal_position
  {% endset %}
  {{ return(run_query(query)) }}
{%- endmacro %}

{% macro freestone_text(value) -%}
  '{{ value | replace("'", "''") }}'
{%- endmacro %}
