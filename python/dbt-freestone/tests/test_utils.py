"""dbt's tests of macros that projects use on every database."""

from adopt import adopted

NAMES = """any_value array_append array_concat array_construct bool_or cast cast_bool_to_text concat date date_spine date_trunc dateadd datediff
equals escape_single_quotes except generate_series get_intervals_between get_powers_of_two hash intersect last_day length listagg null_compare
position replace right safe_cast split_part string_literal validate_sql"""

TYPES = "bigint boolean float int numeric string timestamp"

globals().update(adopted(*(f"utils.test_{name}" for name in NAMES.split()), *(f"utils.data_types.test_type_{name}" for name in TYPES.split())))
