{# The rows of seeds are bound as parameters. #}

{% macro freestone__get_binding_char() -%}
  {{ return('?') }}
{%- endmacro %}

{% macro freestone__get_batch_size() -%}
  {{ return(1000) }}
{%- endmacro %}

{# A seed is a table with a design. #}
{% macro freestone__create_csv_table(model, agate_table) -%}
  {%- set types = model['config'].get('column_types', {}) -%}
  {%- set quote_columns = model['config'].get('quote_columns', none) -%}
  {%- set columns = [] -%}
  {%- for name in agate_table.column_names -%}
    {%- set type = types.get(name, adapter.convert_type(agate_table, loop.index0)) -%}
    {%- do columns.append(adapter.quote_seed_column(name | string, quote_columns) ~ ' ' ~ type) -%}
  {%- endfor -%}
  {%- set sql = 'create table ' ~ this.render() ~ ' (' ~ columns | join(', ') ~ ') ' ~ freestone_design() -%}
  {%- call statement('_') -%}
    {{ sql }}
  {%- endcall -%}
  {{ return(sql) }}
{%- endmacro %}
