"""Columns and the names of their types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dbt.adapters.base.column import Column

INTEGERS = ("tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger", "ubigint")


@dataclass
class FreestoneColumn(Column):
    """A column as DESCRIBE shows it."""

    TYPE_LABELS: ClassVar[dict[str, str]] = {"STRING": "VARCHAR", "TEXT": "VARCHAR", "FLOAT": "DOUBLE", "INTEGER": "INTEGER"}

    @property
    def data_type(self) -> str:
        return self.dtype

    def is_string(self) -> bool:
        return self.dtype.lower() in ("varchar", "text", "json")

    def is_integer(self) -> bool:
        return self.dtype.lower() in INTEGERS

    def is_float(self) -> bool:
        return self.dtype.lower() in ("float", "double", "real")

    def is_numeric(self) -> bool:
        return self.dtype.lower().startswith(("decimal", "numeric"))

    def string_size(self) -> int:
        """Texts have no length that is enforced."""
        return 256

    def can_expand_to(self, other_column: Column) -> bool:
        return False

    @classmethod
    def string_type(cls, size: int) -> str:
        return "VARCHAR"

    @classmethod
    def numeric_type(cls, dtype: str, precision: int | None, scale: int | None) -> str:
        return dtype if precision is None or scale is None else f"DECIMAL({precision},{scale})"
