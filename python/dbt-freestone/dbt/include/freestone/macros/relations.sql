{# Statements that create, rename and drop relations. #}

{% macro freestone__create_table_as(temporary, relation, sql) -%}
  {%- set sql_header = config.get('sql_header', none) -%}
  {%- set contract = config.get('contract') -%}
  {%- set is_typed = contract.enforced and not temporary -%}
  {{ sql_header if sql_header is not none }}
  {% if is_typed %}
    {{ get_assert_columns_equivalent(sql) }}
    {% set sql = get_select_subquery(sql) %}
  {% endif %}
  create {{ 'temporary' if temporary else 'or replace' }} table {{ relation.include(database=not temporary, schema=not temporary) }}
  {{ get_table_columns_and_constraints() if is_typed }}
  {{ freestone_design() if not temporary }}
  as (
    {{ sql }}
  );
{%- endmacro %}

{% macro freestone_design(refresh=none) -%}
  {% set options = {} %}
  {% for name in adapter.design_options() %}
    {% do options.update({name: config.get(name)}) %}
  {% endfor %}
  {{ adapter.design_clause(config.get('design'), options, refresh) }}
{%- endmacro %}

{% macro freestone__create_view_as(relation, sql) -%}
  {%- set sql_header = config.get('sql_header', none) -%}
  {%- set contract = config.get('contract') -%}
  {{ sql_header if sql_header is not none }}
  {% if contract.enforced %}
    {{ get_assert_columns_equivalent(sql) }}
  {% endif %}
  create or replace view {{ relation.render() }} as (
    {{ sql }}
  );
{%- endmacro %}

{# A temporary table is in no schema of the project. #}
{% macro freestone__make_temp_relation(base_relation, suffix) -%}
  {% set path = {"identifier": base_relation.identifier ~ suffix, "schema": none, "database": none} %}
  {{ return(base_relation.incorporate(path=path)) }}
{%- endmacro %}

{% macro freestone__make_intermediate_relation(base_relation, suffix) -%}
  {{ return(base_relation.incorporate(path={"identifier": base_relation.identifier ~ suffix})) }}
{%- endmacro %}

{# Views that read what is dropped go with it, as in dbt's own adapters; dbt makes them again after it. #}
{% macro freestone__drop_table(relation) -%}
  drop table if exists {{ relation.render() }} cascade
{%- endmacro %}

{% macro freestone__drop_view(relation) -%}
  drop view if exists {{ relation.render() }} cascade
{%- endmacro %}

{% macro freestone__drop_materialized_view(relation) -%}
  drop materialized view if exists {{ relation.render() }} cascade
{%- endmacro %}

{% macro freestone__rename_relation(from_relation, to_relation) -%}
  {% call statement('rename_relation') -%}
    alter {{ from_relation.type | replace('_', ' ') }} {{ from_relation.render() }} rename to {{ adapter.quote_as_configured(to_relation.identifier, 'identifier') }}
  {%- endcall %}
{%- endmacro %}

{% macro freestone__alter_column_type(relation, column_name, new_column_type) -%}
  {% call statement('alter_column_type') -%}
    alter table {{ relation.render() }} alter column {{ adapter.quote(column_name) }} type {{ new_column_type }}
    using cast({{ adapter.quote(column_name) }} as {{ new_column_type }})
  {%- endcall %}
{%- endmacro %}

{% macro freestone__alter_relation_comment(relation, comment) -%}
  comment on {{ relation.type | replace('_', ' ') }} {{ relation.render() }} is {{ freestone_text(comment) }}
{%- endmacro %}

{# Columns of views have no comments. #}
{% macro freestone__alter_column_comment(relation, column_dict) -%}
  {% set existing = [] if relation.is_view else adapter.get_columns_in_relation(relation) | map(attribute='name') | list %}
  {% for name in column_dict if name in existing %}
    comment on column {{ relation.render() }}.{{ adapter.quote(name) }} is {{ freestone_text(column_dict[name]['description']) }};
  {% endfor %}
{%- endmacro %}
