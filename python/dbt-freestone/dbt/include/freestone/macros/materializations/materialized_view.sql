{# CREATE OR REPLACE MATERIALIZED VIEW computes the view anew. Others read the old rows until its commit. #}

{% materialization materialized_view, adapter='freestone' %}
  {%- set existing_relation = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='materialized_view') -%}
  {%- set grant_config = config.get('grants') -%}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {% do freestone_make_way(existing_relation, 'materialized_view') %}
  {% call statement('main') -%}
    {{ config.get('sql_header', none) or '' }}
    create or replace materialized view {{ target_relation.render() }}
    {{ freestone_design(config.get('refresh')) }}
    as (
      {{ sql }}
    );
  {%- endcall %}
  {% do create_indexes(target_relation) %}

  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {% do apply_grants(target_relation, grant_config, should_revoke=should_revoke(existing_relation, full_refresh_mode=True)) %}
  {% do persist_docs(target_relation, model) %}
  {{ adapter.commit() }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}

  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
