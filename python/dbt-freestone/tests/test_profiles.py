"""Profiles."""

import pytest
from dbt.adapters.freestone import FreestoneCredentials
from dbt_common.exceptions import DbtRuntimeError


def test_folder():
    assert FreestoneCredentials(path="db", memory_limit="2GB").arguments() == ("db", {"memory_limit": "2GB", "threads": None})


def test_server():
    credentials = FreestoneCredentials(host="example.org", port=5578, user="ada", password="p@ss:word")
    assert credentials.arguments() == ("freestone://ada:p%40ss%3Aword@example.org:5578", {})
    assert "word" not in credentials.unique_field
    assert "password" not in dict(credentials.connection_info())


@pytest.mark.parametrize("given", [{}, {"path": "db", "host": "example.org"}, {"path": ":memory:"}, {"path": "db", "database": "other"}])
def test_wrong_profiles(given):
    with pytest.raises(DbtRuntimeError):
        FreestoneCredentials(**given)
