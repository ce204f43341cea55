{# Types and expressions of dbt's cross-database macros. #}

{% macro freestone__type_float() -%}
  double
{%- endmacro %}

{% macro freestone__safe_cast(field, type) -%}
  try_cast({{ field }} as {{ type }})
{%- endmacro %}

{% macro freestone__listagg(measure, delimiter_text, order_by_clause, limit_num) -%}
  {% if limit_num -%}
    array_to_string(list_slice(array_agg({{ measure }} {{ order_by_clause or '' }}), 1, {{ limit_num }}), {{ delimiter_text }})
  {%- else -%}
    string_agg({{ measure }}, {{ delimiter_text }} {{ order_by_clause or '' }})
  {%- endif %}
{%- endmacro %}

{% macro freestone__array_construct(inputs, data_type) -%}
  cast([{{ inputs | join(', ') }}] as {{ data_type }}[])
{%- endmacro %}
