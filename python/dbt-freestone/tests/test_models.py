"""dbt's tests of seeds, models, tests and commands."""

from adopt import adopted
from dbt.tests.adapter.dbt_show.test_dbt_show import BaseShowDoesNotHandleDoubleLimit

globals().update(
    adopted(
        "aliases.test_aliases",
        "concurrency.test_concurrency",
        "dbt_debug.test_dbt_debug",
        "dbt_show.test_dbt_show",
        "ephemeral.test_ephemeral",
        "persist_docs.test_persist_docs",
        "query_comment.test_query_comment",
        "relations.test_changing_relation_type",
        "relations.test_dropping_schema_named",
        "simple_copy.test_simple_copy",
        "simple_seed.test_seed",
        "store_test_failures_tests.test_store_test_failures",
        "unit_testing.test_case_insensitivity",
        "unit_testing.test_invalid_input",
        "unit_testing.test_quoted_reserved_word_column_names",
    )
)


class TestShowDoesNotHandleDoubleLimit(BaseShowDoesNotHandleDoubleLimit):
    DATABASE_ERROR_MESSAGE = 'found "limit"'
