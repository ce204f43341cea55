"""The adapter: what dbt asks of a database, except for connections and macros."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbt.adapters.base import ConstraintSupport, available
from dbt.adapters.capability import Capability, CapabilityDict, CapabilitySupport, Support
from dbt.adapters.freestone.column import FreestoneColumn
from dbt.adapters.freestone.connections import FreestoneConnectionManager
from dbt.adapters.sql import SQLAdapter
from dbt_common.contracts.constraints import ConstraintType
from dbt_common.exceptions import DbtRuntimeError

#: Configs of a model that are options of its table's design. ``design`` is an option by name, or a mapping of options.
DESIGN_OPTIONS = ("sort", "cluster", "index", "column_groups", "page_format", "page_size", "rle_levels", "encoding", "medium")


class FreestoneAdapter(SQLAdapter):
    """dbt on Freestone."""

    ConnectionManager = FreestoneConnectionManager
    Column = FreestoneColumn

    CONSTRAINT_SUPPORT = {
        ConstraintType.check: ConstraintSupport.ENFORCED,
        ConstraintType.not_null: ConstraintSupport.ENFORCED,
        ConstraintType.unique: ConstraintSupport.ENFORCED,
        ConstraintType.primary_key: ConstraintSupport.ENFORCED,
        ConstraintType.foreign_key: ConstraintSupport.ENFORCED,
    }

    _capabilities: CapabilityDict = CapabilityDict({Capability.SchemaMetadataByRelations: CapabilitySupport(support=Support.Full)})

    @classmethod
    def date_function(cls) -> str:
        return "now()"

    @classmethod
    def is_cancelable(cls) -> bool:
        return True

    def valid_incremental_strategies(self) -> list[str]:
        return ["append", "delete+insert", "merge"]

    @classmethod
    def convert_number_type(cls, agate_table: Any, col_idx: int) -> str:
        import agate

        decimals = agate_table.aggregate(agate.MaxPrecision(col_idx))
        return "double" if decimals else "bigint"

    @classmethod
    def convert_integer_type(cls, agate_table: Any, col_idx: int) -> str:
        return "bigint"

    @classmethod
    def convert_datetime_type(cls, agate_table: Any, col_idx: int) -> str:
        return "timestamp"

    @available
    def design_clause(self, design: Any, options: Mapping[str, Any], refresh: Any = None) -> str:
        """``with (…)`` of a model's config; empty if it says nothing of the design, or of when a view is computed."""
        given = dict(design) if isinstance(design, Mapping) else {} if design is None else {"preset": design}
        given.update({name: options[name] for name in DESIGN_OPTIONS if options.get(name) is not None})
        if refresh is not None:
            given["refresh"] = refresh
        for name in given:
            if not str(name).isidentifier():
                raise DbtRuntimeError(f"{name!r} is not the name of a design option")
        texts = ", ".join(f"{name} = {_literal(value)}" for name, value in given.items())
        return f"with ({texts})" if texts else ""

    @available
    def design_options(self) -> list[str]:
        """The names of configs that are options of the design."""
        return list(DESIGN_OPTIONS)


def _literal(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return "'" + text.replace("'", "''") + "'"
