"""SQL of SQLAlchemy's expressions, tables and types. It is PostgreSQL's, except for what stands here."""

from __future__ import annotations

from typing import Any, Dict

from sqlalchemy import cast, exc, types
from sqlalchemy.dialects.postgresql.base import PGCompiler, PGDDLCompiler, PGTypeCompiler

from .._sql import literal

#: The options of CREATE TABLE that tables have as ``freestone_…``.
DESIGN_OPTIONS = (
    "design", "preset", "column_groups", "page_format", "page_size", "sort", "cluster", "interleave", "cluster_missing",
    "rle_levels", "encoding", "medium", "index",
)  # fmt: skip


class FreestoneCompiler(PGCompiler):
    """Queries and writes."""

    def visit_json_path_getitem_op_binary(
        self, binary: Any, operator: Any, _cast_applied: bool = False, **kw: Any
    ) -> str:
        """A value within JSON by its path, which ``->`` takes as JSONPath."""
        if not _cast_applied and binary.type._type_affinity is not types.JSON:
            return str(self.process(cast(binary, binary.type), _cast_applied=True, **kw))
        kw["eager_grouping"] = True
        return str(self._generate_generic_binary(binary, " ->> " if _cast_applied else " -> ", **kw))

    def visit_frame_clause(self, frameclause: Any, **kw: Any) -> Any:
        """The frame of a window, whose offsets are numbers and no parameters."""
        return super().visit_frame_clause(frameclause, **{**kw, "literal_execute": True})  # type: ignore[no-untyped-call]

    def _format_frame_clause(self, range_: Any, **kw: Any) -> Any:
        """The same in SQLAlchemy 2.0."""
        return super()._format_frame_clause(range_, **{**kw, "literal_execute": True})  # type: ignore[misc]


class FreestoneDDLCompiler(PGDDLCompiler):
    """Tables with their designs."""

    def visit_computed_column(self, generated: Any, **kw: Any) -> str:
        if generated.persisted is False:
            raise exc.CompileError("Freestone stores generated columns: leave persisted out, or set it to True")
        text = self.sql_compiler.process(generated.sqltext, include_table=False, literal_binds=True)
        return f"GENERATED ALWAYS AS ({text}) STORED"

    def post_create_table(self, table: Any) -> str:
        given: Dict[str, Any] = table.dialect_options["freestone"]
        options = {name: given[name] for name in DESIGN_OPTIONS if given[name] is not None}
        written = ", ".join(f"{name} = {_option(name, value)}" for name, value in options.items())
        before: str = super().post_create_table(table)  # type: ignore[no-untyped-call]
        return before + (f"\n WITH ({written})" if written else "")


def _option(name: str, value: Any) -> str:
    """The value of an option: text, a number, or names in a list."""
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return literal(", ".join(value))
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return literal(str(value))
    raise exc.CompileError(f"freestone_{name} is text, a number or a list of names, not {value!r}")


class FreestoneTypeCompiler(PGTypeCompiler):
    """Names of types."""

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:  # noqa: N802 - the name is SQLAlchemy's
        """A float of Python has 64 bits, and FLOAT here has 32."""
        return "REAL" if type_.precision is not None and type_.precision <= 24 else "DOUBLE"

    def visit_INTERVAL(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        """An interval counts nanoseconds, without fields or a precision."""
        return "INTERVAL"
