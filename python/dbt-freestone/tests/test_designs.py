"""Configs of models that are options of designs."""

import freestone
import pytest
from dbt.tests.util import run_dbt

MODELS = {
    "by_list": """{{ config(materialized='table', sort=['b', 'a'], design='row') }} select 1 as a, 'x' as b""",
    "by_mapping": """{{ config(materialized='table', design={'preset': 'pax', 'page_size': '64KiB'}, cluster='a') }} select 1 as a""",
    "added": """{{ config(materialized='incremental', sort='a', unique_key='a') }} select 1 as a, 2 as b""",
    "kept": """{{ config(materialized='materialized_view', sort='a', refresh='on commit') }} select a, b from {{ ref('added') }}""",
    "on_table": """{{ config(materialized='view') }} select a from {{ ref('by_list') }}""",
}


@pytest.fixture(scope="class")
def database(dbt_profile_target):
    with freestone.connect(dbt_profile_target["path"]) as db:
        yield db


def design(db, schema, table):
    return dict(db.sql(f"SELECT * FROM freestone_design('{schema}.{table}')").fetchall())


class TestDesigns:
    @pytest.fixture(scope="class")
    def models(self):
        return {f"{name}.sql": text for name, text in MODELS.items()}

    @pytest.fixture(scope="class")
    def seeds(self):
        return {"places.csv": "id,name\n1,Oslo\n2,Rome\n"}

    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"seeds": {"+sort": "name", "+design": "row"}}

    def test_designs(self, project, database):
        run_dbt(["seed"])
        # The second run replaces the tables, and a view reads one of them.
        for _ in range(2):
            run_dbt(["run"])
            found = {name: design(database, project.test_schema, name) for name in ("by_list", "by_mapping", "added", "places")}
            assert found["by_list"] == {"preset": "row", "sort": "b, a"}
            assert found["by_mapping"] == {"preset": "pax", "page_size": "64KiB", "cluster": "a"}
            assert found["added"]["sort"] == "a"
            assert design(database, project.test_schema, "kept")["sort"] == "a"
            assert found["places"] == {"preset": "row", "sort": "name"}
        assert project.run_sql(f"select count(*) from {project.test_schema}.on_table", fetch="one") == (1,)
        views = database.sql("SELECT name, refresh, rows FROM freestone_materialized_views()").fetchall()
        assert views == [(f"{project.test_schema}.kept", "on commit", 1)]


class TestWrongDesign:
    @pytest.fixture(scope="class")
    def models(self):
        return {"wrong.sql": "{{ config(materialized='table', sort='nothing') }} select 1 as a"}

    def test_wrong_design(self, project):
        (result,) = run_dbt(["run"], expect_pass=False)
        assert "nothing" in result.message
