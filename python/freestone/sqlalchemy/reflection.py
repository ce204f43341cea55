"""Reflection: what tables, columns, keys and views a database has."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional

from sqlalchemy import exc, util
from sqlalchemy.dialects.postgresql.json import JSON
from sqlalchemy.engine import Connection, reflection
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.reflection import ReflectionDefaults

from .compiler import DESIGN_OPTIONS
from .types import named

TEMPORARY = "pg_temp"

_NAME = r'(?:"(?:[^"]|"")+"|[^\s".,()]+)'
# A column of JSON is text with a check.
_JSON_CHECK = re.compile(rf"freestone_is_json\(({_NAME})\)")


class Reflection(DefaultDialect):
    """The inspection of databases. The tables of no schema are those of the default one, and temporary ones."""

    def _rows(self, connection: Connection, text: str, *values: Any) -> List[Any]:
        return list(connection.exec_driver_sql(text, values).fetchall())

    def _names(self, connection: Connection, text: str, *values: Any) -> List[str]:
        return [name for (name,) in self._rows(connection, text, *values)]

    @reflection.cache
    def get_schema_names(self, connection: Connection, **kw: Any) -> List[str]:
        return self._names(connection, "SELECT schema_name FROM information_schema.schemata ORDER BY 1")

    @reflection.cache
    def get_table_names(self, connection: Connection, schema: Optional[str] = None, **kw: Any) -> List[str]:
        return self._tables(connection, schema or self._default(), "BASE TABLE")

    @reflection.cache
    def get_temp_table_names(self, connection: Connection, schema: Optional[str] = None, **kw: Any) -> List[str]:
        return self._tables(connection, TEMPORARY, "LOCAL TEMPORARY")

    @reflection.cache
    def get_view_names(self, connection: Connection, schema: Optional[str] = None, **kw: Any) -> List[str]:
        return self._tables(connection, schema or self._default(), "VIEW")

    @reflection.cache
    def get_temp_view_names(self, connection: Connection, schema: Optional[str] = None, **kw: Any) -> List[str]:
        return self._tables(connection, TEMPORARY, "VIEW")

    def _tables(self, connection: Connection, schema: str, kind: str) -> List[str]:
        text = "SELECT table_name FROM information_schema.tables WHERE table_schema = ? AND table_type = ? ORDER BY 1"
        return self._names(connection, text, schema, kind)

    @reflection.cache
    def get_sequence_names(self, connection: Connection, schema: Optional[str] = None, **kw: Any) -> List[str]:
        text = "SELECT sequence_name FROM information_schema.sequences WHERE sequence_schema = ? ORDER BY 1"
        return self._names(connection, text, schema or self._default())

    @reflection.cache
    def has_table(self, connection: Connection, table_name: str, schema: Optional[str] = None, **kw: Any) -> bool:
        self._ensure_has_table_connection(connection)
        return self._kind(connection, table_name, schema) is not None

    @reflection.cache
    def has_sequence(self, connection: Connection, sequence_name: str, schema: Optional[str] = None, **kw: Any) -> bool:
        return sequence_name in self.get_sequence_names(connection, schema, **kw)

    @reflection.cache
    def get_view_definition(
        self, connection: Connection, view_name: str, schema: Optional[str] = None, **kw: Any
    ) -> str:
        where = self._schema_of(connection, view_name, schema)
        text = "SELECT view_definition FROM information_schema.views WHERE table_schema = ? AND table_name = ?"
        for definition in self._names(connection, text, where, view_name):
            return definition
        raise exc.NoSuchTableError(view_name)

    @reflection.cache
    def get_columns(
        self, connection: Connection, table_name: str, schema: Optional[str] = None, **kw: Any
    ) -> Any:
        where = self._schema_of(connection, table_name, schema)
        text = """SELECT column_name, data_type, is_nullable = 'YES', column_default FROM information_schema.columns
            WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position"""
        comments = dict(
            self._rows(
                connection,
                "SELECT column_name, comment FROM duckdb_columns() WHERE schema_name = ? AND table_name = ?",
                _main(where),
                table_name,
            )
        )
        has_json = {_bare(found[1]) for check in self._checks(connection, table_name, where) if (found := _json(check[1]))}
        columns = []
        for name, kind, nullable, default in self._rows(connection, text, where, table_name):
            type_ = JSON() if name in has_json else named(kind)
            if kind not in ("NULL", '"NULL"') and type_.__class__.__name__ == "NullType":
                util.warn(f"SQLAlchemy has no type for the column {name}, {kind}")
            columns.append(
                {
                    "name": name,
                    "type": type_,
                    "nullable": nullable,
                    "default": default,
                    "autoincrement": default is not None and default.startswith("nextval("),
                    "comment": comments.get(name),
                }
            )
        return columns

    @reflection.cache
    def get_pk_constraint(
        self, connection: Connection, table_name: str, schema: Optional[str] = None, **kw: Any
    ) -> Any:
        where = self._schema_of(connection, table_name, schema)
        for name, columns in self._keys(connection, table_name, where, "PRIMARY KEY").items():
            return {"name": name, "constrained_columns": columns}
        return ReflectionDefaults.pk_constraint()

    @reflection.cache
    def get_unique_constraints(
        self, connection: Connection, table_name: str, schema: Optional[str] = None, **kw: Any
    ) -> Any:
        where = self._schema_of(connection, table_name, schema)
        found = self._keys(connection, table_name, where, "UNIQUE")
        return [{"name": name, "column_names": columns} for name, columns in found.items()]

    def _keys(self, connection: Connection, table: str, schema: str, kind: str) -> Dict[str, List[str]]:
        """The columns of a table's keys of one kind, by the name of the constraint."""
        text = """SELECT k.constraint_name, k.column_name
            FROM information_schema.table_constraints AS c JOIN information_schema.key_column_usage AS k
            ON c.constraint_name = k.constraint_name AND c.table_schema = k.table_schema AND c.table_name = k.table_name
            WHERE c.table_schema = ? AND c.table_name = ? AND c.constraint_type = ? ORDER BY 1, k.ordinal_position"""
        keys: Dict[str, List[str]] = {}
        for name, column in self._rows(connection, text, schema, table, kind):
            # Names of other schemas than the default one have these before them.
            keys.setdefault(name.removeprefix(f"{schema}."), []).append(column)
        return keys

    @reflection.cache
    def get_foreign_keys(
        self, connection: Connection, table_name: str, schema: Optional[str] = None, **kw: Any
    ) -> Any:
        where = self._schema_of(connection, table_name, schema)
        text = """SELECT k.constraint_name, k.column_name, u.table_schema, u.table_name, u.column_name
            FROM information_schema.key_column_usage AS k
            JOIN information_schema.referential_constraints AS r
            ON k.constraint_schema = r.constraint_schema AND k.constraint_name = r.constraint_name
            JOIN information_schema.key_column_usage AS u
            ON u.constraint_schema = r.unique_constraint_schema AND u.constraint_name = r.unique_constraint_name
            AND u.ordinal_position = k.position_in_unique_constraint
            WHERE k.table_schema = ? AND k.table_name = ? ORDER BY k.constraint_name, k.ordinal_position"""
        keys: Dict[Any, Dict[str, Any]] = {}
        for name, column, other_schema, other, referred in self._rows(connection, text, where, table_name):
            is_default = other_schema in (self._default(), TEMPORARY) and schema is None
            empty = {
                "name": name,
                "constrained_columns": [],
                "referred_schema": None if is_default else other_schema,
                "referred_table": other,
                "referred_columns": [],
                "options": {},
            }
            key = keys.setdefault((name, other_schema, other), empty)
            key["constrained_columns"].append(column)
            key["referred_columns"].append(referred)
        return list(keys.values())

    @reflection.cache
    def get_check_constraints(
        self, connection: Connection, table_name: str, schema: Optional[str] = None, **kw: Any
    ) -> Any:
        where = self._schema_of(connection, table_name, schema)
        checks = self._checks(connection, table_name, where)
        return [{"name": name, "sqltext": text} for name, text in checks if not _json(text)]

    def _checks(self, connection: Connection, table: str, schema: str) -> List[Any]:
        text = """SELECT constraint_name, expression FROM duckdb_constraints()
            WHERE schema_name = ? AND table_name = ? AND constraint_type = 'CHECK' ORDER BY 1"""
        return self._rows(connection, text, _main(schema), table)

    @reflection.cache
    def get_indexes(
        self, connection: Connection, table_name: str, schema: Optional[str] = None, **kw: Any
    ) -> Any:
        where = self._schema_of(connection, table_name, schema)
        text = """SELECT index_name, is_unique, expressions FROM duckdb_indexes()
            WHERE schema_name = ? AND table_name = ? AND NOT is_primary ORDER BY 1"""
        unique = self._keys(connection, table_name, where, "UNIQUE")
        indexes = []
        for name, is_unique, written in self._rows(connection, text, _main(where), table_name):
            name = name.removeprefix(f"{where}.")
            columns = unique.get(name) or [_bare(column) for column in re.findall(_NAME, written[1:-1])]
            index = {"name": name, "column_names": columns, "unique": is_unique}
            indexes.append({**index, "duplicates_constraint": name} if name in unique else index)
        return indexes

    @reflection.cache
    def get_table_comment(
        self, connection: Connection, table_name: str, schema: Optional[str] = None, **kw: Any
    ) -> Any:
        where = self._schema_of(connection, table_name, schema)
        text = "SELECT comment FROM duckdb_tables() WHERE schema_name = ? AND table_name = ?"
        return {"text": next(iter(self._names(connection, text, _main(where), table_name)), None)}

    @reflection.cache
    def get_table_options(
        self, connection: Connection, table_name: str, schema: Optional[str] = None, **kw: Any
    ) -> Any:
        """The design of a table, as ``freestone_…``."""
        where = self._schema_of(connection, table_name, schema)
        if self._kind(connection, table_name, schema) != "BASE TABLE":
            return {}
        full = table_name if where == self._default() else f"{where}.{table_name}"
        design = dict(self._rows(connection, "SELECT option, value FROM freestone_design(?)", full))
        if any(not index["unique"] for index in self.get_indexes(connection, table_name, schema, **kw)):
            del design["index"]
        return {f"freestone_{option}": design[option] for option in DESIGN_OPTIONS if design.get(option, "auto") != "auto"}

    def _default(self) -> str:
        return self.default_schema_name or "public"

    def _kind(self, connection: Connection, table: str, schema: Optional[str]) -> Optional[str]:
        """BASE TABLE, VIEW or LOCAL TEMPORARY; None if there is no such table."""
        found = self._found(connection, table, schema)
        return found[1] if found else None

    def _schema_of(self, connection: Connection, table: str, schema: Optional[str]) -> str:
        found = self._found(connection, table, schema)
        if found is None:
            raise exc.NoSuchTableError(table if schema is None else f"{schema}.{table}")
        return str(found[0])

    def _found(self, connection: Connection, table: str, schema: Optional[str]) -> Any:
        text = """SELECT table_schema, table_type FROM information_schema.tables
            WHERE table_name = ? AND table_schema IN (?, ?) ORDER BY table_schema <> 'pg_temp'"""
        schemas = [schema, schema] if schema else [self._default(), TEMPORARY]
        return next(iter(self._rows(connection, text, table, *schemas)), None)


def _main(schema: str) -> str:
    """The name of a schema in tables that have DuckDB's form."""
    return "main" if schema == "public" else schema


def _json(check: str) -> Optional["re.Match[str]"]:
    return _JSON_CHECK.fullmatch(check)


def _bare(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
