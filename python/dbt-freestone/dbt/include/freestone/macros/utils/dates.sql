{# Dates of dbt's cross-database macros. #}

{% macro freestone__date(year, month, day) -%}
  make_date({{ year }}, {{ month }}, {{ day }})
{%- endmacro %}

{% macro freestone__dateadd(datepart, interval, from_date_or_timestamp) -%}
  (cast({{ from_date_or_timestamp }} as timestamp) + (interval 1 {{ datepart }}) * ({{ interval }}))
{%- endmacro %}

{# dbt counts the boundaries between two times. Its weeks begin on Sunday, and those of date_trunc on Monday. #}
{% macro freestone__datediff(first_date, second_date, datepart) -%}
  {% if datepart | lower == 'week' -%}
    (date_diff('day', {{ freestone_next_week(first_date) }}, {{ freestone_next_week(second_date) }}) / 7)
  {%- else -%}
    date_diff('{{ datepart }}', cast({{ first_date }} as timestamp), cast({{ second_date }} as timestamp))
  {%- endif %}
{%- endmacro %}

{% macro freestone_next_week(time) -%}
  date_trunc('week', cast({{ time }} as timestamp) + interval 1 day)
{%- endmacro %}

{% macro freestone__last_day(date, datepart) -%}
  cast({{ dbt.dateadd('day', '-1', dbt.dateadd(datepart, '1', dbt.date_trunc(datepart, date))) }} as date)
{%- endmacro %}
