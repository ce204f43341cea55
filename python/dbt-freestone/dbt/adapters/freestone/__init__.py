"""The Freestone adapter of dbt."""

from dbt.adapters.base import AdapterPlugin
from dbt.adapters.freestone.connections import FreestoneConnectionManager
from dbt.adapters.freestone.credentials import FreestoneCredentials
from dbt.adapters.freestone.impl import FreestoneAdapter
from dbt.include import freestone

Plugin = AdapterPlugin(adapter=FreestoneAdapter, credentials=FreestoneCredentials, include_path=freestone.PACKAGE_PATH)

__all__ = ["FreestoneAdapter", "FreestoneConnectionManager", "FreestoneCredentials", "Plugin"]
