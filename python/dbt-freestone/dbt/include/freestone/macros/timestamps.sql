{# Times of snapshots are timestamps without a time zone, in UTC. #}

{% macro freestone__current_timestamp() -%}
  now()
{%- endmacro %}

{% macro freestone__snapshot_string_as_time(timestamp) -%}
  {{ return("cast('" ~ timestamp ~ "' as timestamp)") }}
{%- endmacro %}

{% macro freestone__snapshot_get_time() -%}
  cast(now() as timestamp)
{%- endmacro %}
