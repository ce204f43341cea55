import ibis
import pytest


@pytest.fixture
def con():
    """A database in memory."""
    connection = ibis.freestone.connect()
    yield connection
    connection.disconnect()
