"""Contracts and constraints of models."""

import pytest
from dbt.tests.util import run_dbt

SCHEMA = """
models:
  - name: people
    config: {materialized: table, sort: name, contract: {enforced: true}}
    constraints:
      - {type: primary_key, columns: [id]}
      - {type: check, expression: "id < 100"}
    columns:
      - {name: id, data_type: bigint, constraints: [{type: not_null}]}
      - {name: name, data_type: varchar, constraints: [{type: unique}]}
"""


class TestContract:
    @pytest.fixture(scope="class")
    def models(self):
        return {"people.sql": "select 'Ann' as name, {{ var('id', 1) }} as id", "schema.yml": SCHEMA}

    def test_contract(self, project):
        run_dbt(["run"])
        assert project.run_sql(f"select id, name from {project.test_schema}.people", fetch="one") == (1, "Ann")
        kinds = project.run_sql(
            f"select constraint_type from information_schema.table_constraints where table_schema = '{project.test_schema}' order by all", fetch="all"
        )
        assert {"CHECK", "PRIMARY KEY", "UNIQUE"} <= {kind for (kind,) in kinds}
        for wrong in ("100", "null::bigint", "'x'"):
            run_dbt(["run", "--vars", f'{{id: "{wrong}"}}'], expect_pass=False)
        assert project.run_sql(f"select count(*) from {project.test_schema}.people", fetch="one") == (1,)
