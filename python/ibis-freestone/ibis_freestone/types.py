"""The types of columns: names in SQL to and from those of Ibis."""

from __future__ import annotations

from ibis.backends.sql import datatypes


class FreestoneType(datatypes.DuckDBType):
    """The type names of Freestone are those of DuckDB."""

    dialect = "freestone"


# Ibis builds this table of its own dialects when it is imported.
datatypes._TYPE_MAPPERS[FreestoneType.dialect] = FreestoneType
