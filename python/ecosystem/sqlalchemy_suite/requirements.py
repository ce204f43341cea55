"""What Freestone has of the features that SQLAlchemy's suite tests. The others stand in ``skipped.txt``."""

import pathlib

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

#: Features that the suite does not expect of every database.
HAS = """
    aggregate_order_by array_type autocommit boolean_col_expressions check_constraint_reflection comment_reflection
    comment_reflection_full_unicode computed_columns computed_columns_stored create_or_replace_view create_table_as
    create_temp_table_as cross_schema_fk_reflection ctes ctes_on_dml ctes_with_update_delete ctes_with_values date_historic
    datetime_historic datetime_interval datetime_literals datetime_timezone datetime_timezone_historic delete_from except_
    expression_server_defaults fetch_expression fetch_first fetch_no_order_by fetch_offset_with_options fetch_percent fetch_ties
    float_or_double_precision_behaves_generically foreign_key_constraint_name_reflection has_temp_table identity_columns
    identity_columns_standard implicit_default_schema index_ddl_if_exists indexes_check_column_order infinity_floats inline_check_constraint_reflection
    intersect isolation_level json_type legacy_unconditional_json_extract mod_operator_as_percent_sign non_updating_cascade
    nullsordering order_by_label_with_expression percent_schema_names precision_numerics_enotation_small
    precision_numerics_many_significant_digits precision_numerics_retains_significant_digits reflect_table_options
    reflects_pk_names regexp_match regexp_replace savepoints schema_create_delete
    server_defaults skip_autocommit_rollback supports_bitwise_and supports_bitwise_not supports_bitwise_or
    supports_bitwise_shift supports_bitwise_xor supports_distinct_on table_ddl_if_exists table_value_constructor
    temp_table_comment_reflection temp_table_names temporary_views timestamp_microseconds tuple_in unicode_ddl
    unique_constraints_reflect_as_index unique_index_reflect_as_unique_constraints update_from uuid_data_type views
    window_functions window_range window_range_non_numeric window_range_numeric
""".split()


class Requirements(SuiteRequirements):
    """The features of Freestone."""


def skipped(kind):
    """Names of features or tests that are skipped, with the reasons."""
    lines = (pathlib.Path(__file__).parent / "skipped.txt").read_text().splitlines()
    parts = (line.split(" ", 2) for line in lines if line and not line.startswith("#"))
    found = {name: reason for given, name, reason in parts if given == kind}
    unknown = [name for name in found if kind == "feature" and not hasattr(SuiteRequirements, name)]
    assert not unknown, f"the suite has no such features: {unknown}"
    return found


def _feature(rule):
    return property(lambda self: rule())


for _name in HAS:
    setattr(Requirements, _name, _feature(exclusions.open))
for _name, _reason in skipped("feature").items():
    setattr(Requirements, _name, _feature(lambda reason=_reason: exclusions.skip_if(lambda: True, reason)))
