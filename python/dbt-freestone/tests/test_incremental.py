"""dbt's tests of incremental models."""

import pytest
from adopt import adopted
from dbt.tests.adapter.incremental.test_incremental_predicates import BaseIncrementalPredicates
from dbt.tests.adapter.incremental.test_incremental_unique_id import BaseIncrementalUniqueKey

globals().update(
    adopted(
        "incremental.test_incremental_merge_exclude_columns",
        "incremental.test_incremental_on_schema_change",
        "incremental.test_incremental_predicates",
    )
)


class TestUniqueKeyDeleteInsert(BaseIncrementalUniqueKey):
    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"models": {"+incremental_strategy": "delete+insert"}}


class TestUniqueKeyMerge(BaseIncrementalUniqueKey):
    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"models": {"+incremental_strategy": "merge"}}


class TestPredicatesMerge(BaseIncrementalPredicates):
    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"models": {"+incremental_predicates": ["dbt_internal_dest.id != 2"], "+incremental_strategy": "merge"}}
