{# Snapshots. Values are cast to the types of the snapshot's columns, because MERGE takes none that would lose digits. #}

{% macro freestone__snapshot_merge_sql(target, source, insert_cols) -%}
  {%- set names = config.get("snapshot_table_column_names") or get_snapshot_table_column_names() -%}
  {%- set types = {} -%}
  {%- for column in adapter.get_columns_in_relation(target) -%}
    {%- do types.update({column.name: column.data_type}) -%}
  {%- endfor -%}
  {%- set end = 'DBT_INTERNAL_DEST.' ~ names.dbt_valid_to -%}
  merge into {{ target.render() }} as DBT_INTERNAL_DEST
  using {{ source }} as DBT_INTERNAL_SOURCE
  on DBT_INTERNAL_SOURCE.{{ names.dbt_scd_id }} = DBT_INTERNAL_DEST.{{ names.dbt_scd_id }}
  when matched
    {% if config.get("dbt_valid_to_current") %}
    and ({{ equals(end, config.get("dbt_valid_to_current")) }} or {{ end }} is null)
    {% else %}
    and {{ end }} is null
    {% endif %}
    and DBT_INTERNAL_SOURCE.dbt_change_type in ('update', 'delete')
    then update set {{ names.dbt_valid_to }} = {{ freestone_cast(names.dbt_valid_to, types) }}
  when not matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'insert'
    then insert ({{ insert_cols | join(', ') }})
    values (
      {%- for column in insert_cols %}
      {{ freestone_cast(column, types) }}{{ ',' if not loop.last }}
      {%- endfor %}
    )
{%- endmacro %}

{# The name of the column may be quoted. #}
{% macro freestone_cast(column, types) -%}
  {%- set type = types.get(column | replace('"', '')) -%}
  {%- set value = 'DBT_INTERNAL_SOURCE.' ~ column -%}
  {{ 'cast(' ~ value ~ ' as ' ~ type ~ ')' if type else value }}
{%- endmacro %}

{% macro freestone__post_snapshot(staging_relation) -%}
  {% do drop_relation_if_exists(staging_relation) %}
{%- endmacro %}
