"""All tests of SQLAlchemy's suite for dialects."""

from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.testing import config
from sqlalchemy.testing.provision import temp_table_keyword_args, upsert
from sqlalchemy.testing.suite import *  # noqa: F403

with config.db.begin() as connection:
    connection.exec_driver_sql("CREATE SCHEMA IF NOT EXISTS test_schema")


@temp_table_keyword_args.for_db("freestone")
def _temp_table_keyword_args(cfg, eng):
    return {"prefixes": ["TEMPORARY"]}


@upsert.for_db("freestone")
def _upsert(cfg, table, returning, *, set_lambda=None, sort_by_parameter_order=False, index_elements=None):
    statement = insert(table)
    elements = index_elements or table.primary_key
    if set_lambda:
        statement = statement.on_conflict_do_update(index_elements=elements, set_=set_lambda(statement.excluded))
    else:
        statement = statement.on_conflict_do_nothing()
    return statement.returning(*returning, sort_by_parameter_order=sort_by_parameter_order)
