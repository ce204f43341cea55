{# The first run and a full refresh make the table as the materialization "table" does. Other runs add the rows of a temporary table. #}

{% materialization incremental, adapter='freestone' %}
  {%- set existing_relation = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set temp_relation = make_temp_relation(target_relation) -%}
  {%- set is_new = existing_relation is none or existing_relation.type != 'table' or should_full_refresh() -%}
  {%- set on_schema_change = incremental_validate_on_schema_change(config.get('on_schema_change'), default='ignore') -%}
  {%- set strategy = adapter.get_incremental_strategy_macro(context, config.get('incremental_strategy') or 'default') -%}
  {%- set grant_config = config.get('grants') -%}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {% if is_new %}
    {% do freestone_make_way(existing_relation, 'table') %}
    {% set build_sql = get_create_table_as_sql(False, target_relation, sql) %}
  {% else %}
    {% do run_query('drop table if exists ' ~ temp_relation.render()) %}
    {% do run_query(get_create_table_as_sql(True, temp_relation, sql)) %}
    {% set changed_columns = process_schema_changes(on_schema_change, temp_relation, existing_relation) %}
    {% set build_sql = strategy({
      'target_relation': target_relation,
      'temp_relation': temp_relation,
      'unique_key': config.get('unique_key'),
      'dest_columns': changed_columns or adapter.get_columns_in_relation(existing_relation),
      'incremental_predicates': config.get('predicates', none) or config.get('incremental_predicates', none)
    }) %}
  {% endif %}
  {% call statement('main') -%}
    {{ build_sql }}
  {%- endcall %}
  {% if is_new %}
    {% do create_indexes(target_relation) %}
  {% else %}
    {% do run_query('drop table if exists ' ~ temp_relation.render()) %}
  {% endif %}

  {% do apply_grants(target_relation, grant_config, should_revoke=should_revoke(existing_relation, is_new)) %}
  {% do persist_docs(target_relation, model) %}
  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ adapter.commit() }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}

  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}

{# With a key, rows are merged; without one, they are appended. #}
{% macro freestone__get_incremental_default_sql(arg_dict) -%}
  {% if arg_dict['unique_key'] %}
    {{ return(get_incremental_merge_sql(arg_dict)) }}
  {% else %}
    {{ return(get_incremental_append_sql(arg_dict)) }}
  {% endif %}
{%- endmacro %}
