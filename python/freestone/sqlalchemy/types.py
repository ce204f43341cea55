"""SQL types by their names, as ``information_schema`` has them, and types of SQLAlchemy that need other SQL than PostgreSQL's."""

from __future__ import annotations

import datetime
import decimal
import re
from typing import Any, Callable, Dict, Optional

from sqlalchemy import types
from sqlalchemy.dialects.postgresql import ARRAY, INTERVAL, TIMESTAMP
from sqlalchemy.dialects.postgresql.json import JSON
from sqlalchemy.dialects.sqlite.json import JSONIndexType, JSONPathType


class Date(types.Date):
    """DATE, which takes a ``datetime`` without its time."""

    def bind_processor(self, dialect: Any) -> Callable[[Any], Any]:
        return lambda value: value.date() if isinstance(value, datetime.datetime) else value


class Numeric(types.Numeric[Any]):
    """DECIMAL. A quotient of decimals is a DOUBLE, which becomes the decimal that it prints."""

    def result_processor(self, dialect: Any, coltype: object) -> Optional[Callable[[Any], Any]]:
        if not self.asdecimal:
            return super().result_processor(dialect, coltype)  # type: ignore[no-untyped-call, no-any-return]
        return lambda value: decimal.Decimal(repr(value)) if isinstance(value, float) else value


class Interval(INTERVAL):
    """INTERVAL."""

    @classmethod
    def adapt_emulated_to_native(cls, interval: Any, **kw: Any) -> "Interval":  # type: ignore[override]
        return cls()

    def literal_processor(self, dialect: Any) -> Callable[[Any], str]:
        return lambda value: f"INTERVAL '{value // datetime.timedelta(microseconds=1)} microseconds'"


#: The types of SQLAlchemy with an own form here.
COLSPECS = {
    types.ARRAY: ARRAY,
    types.Date: Date,
    types.Float: types.Float,
    types.Numeric: Numeric,
    types.Interval: Interval,
    types.JSON: JSON,
    types.JSON.JSONIndexType: JSONIndexType,
    types.JSON.JSONPathType: JSONPathType,
}

#: The names of types without arguments. The unsigned ones become the smallest type that holds them.
NAMES: Dict[str, Callable[[], types.TypeEngine[Any]]] = {
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": types.SMALLINT,
    "SMALLINT": types.SMALLINT,
    "INTEGER": types.INTEGER,
    "BIGINT": types.BIGINT,
    "UTINYINT": types.SMALLINT,
    "USMALLINT": types.INTEGER,
    "UINTEGER": types.BIGINT,
    "UBIGINT": lambda: types.NUMERIC(20, 0),
    "HUGEINT": lambda: types.NUMERIC(38, 0),
    "FLOAT": types.REAL,
    "DOUBLE": types.DOUBLE_PRECISION,
    "VARCHAR": types.VARCHAR,
    "JSON": JSON,
    "BLOB": types.LargeBinary,
    "UUID": types.UUID,
    "DATE": types.DATE,
    "TIME": types.TIME,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP_S": TIMESTAMP,
    "TIMESTAMP_MS": TIMESTAMP,
    "TIMESTAMP_NS": TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": lambda: TIMESTAMP(timezone=True),
    "INTERVAL": INTERVAL,
}


def named(text: str) -> types.TypeEngine[Any]:
    """The type of a name, such as ``DECIMAL(10,2)`` or ``INTEGER[]``; NullType for structs, maps and others."""
    if text.endswith("[]"):
        inner = named(text[:-2])
        # SQLAlchemy has lists of lists as one list with dimensions.
        if isinstance(inner, ARRAY):
            return ARRAY(inner.item_type, dimensions=(inner.dimensions or 1) + 1)
        return ARRAY(inner)
    decimal = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", text)
    if decimal is not None:
        return types.NUMERIC(int(decimal[1]), int(decimal[2]))
    if text.startswith("ENUM("):
        return types.Enum(*(value.replace("''", "'") for value in re.findall(r"'((?:[^']|'')*)'", text)))
    made = NAMES.get(text)
    return types.NullType() if made is None else made()
