{# CREATE OR REPLACE TABLE replaces a table at its commit. Others read the old one until then. #}

{% materialization table, adapter='freestone' %}
  {%- set existing_relation = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set grant_config = config.get('grants') -%}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {% do freestone_make_way(existing_relation, 'table') %}
  {% call statement('main') -%}
    {{ get_create_table_as_sql(False, target_relation, sql) }}
  {%- endcall %}
  {% do create_indexes(target_relation) %}

  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {% do apply_grants(target_relation, grant_config, should_revoke=should_revoke(existing_relation, full_refresh_mode=True)) %}
  {% do persist_docs(target_relation, model) %}
  {{ adapter.commit() }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}

  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}

{# A view of the table's name is dropped first, and a table of a view's. #}
{% macro freestone_make_way(existing_relation, type) -%}
  {% if existing_relation is not none and existing_relation.type != type %}
    {% do adapter.drop_relation(existing_relation) %}
  {% endif %}
{%- endmacro %}
