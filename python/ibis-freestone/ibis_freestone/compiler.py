"""Ibis expressions to SQL. What is not here is compiled as for DuckDB."""

from __future__ import annotations

import sys
from typing import Any

import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import sqlglot.expressions as sge
from ibis.backends.sql import compilers
from ibis.backends.sql.compilers.base import NULL
from ibis.backends.sql.compilers.duckdb import DuckDBCompiler
from ibis.backends.sql.rewrites import split_select_distinct_with_order_by

from .dialect import Freestone
from .types import FreestoneType

#: Functions that make a timestamp of a number of units since 1970.
EPOCHS = {"s": "to_timestamp", "ms": "make_timestamp_ms", "us": "make_timestamp", "ns": "make_timestamp_ns"}

#: The parts of a URL, each as a pattern whose group is the part, after RFC 3986, appendix B.
SCHEME, AUTHORITY, PATH = r"^(?:[^:/?#]+:)?", r"(?://[^/?#]*)?", r"[^?#]*"
URL_PARTS = {
    ops.ExtractProtocol: r"^([^:/?#]+):",
    ops.ExtractAuthority: rf"{SCHEME}//([^/?#]*)",
    ops.ExtractUserInfo: rf"{SCHEME}//([^/?#@]*)@",
    ops.ExtractHost: rf"{SCHEME}//(?:[^/?#@]*@)?(\[[^\]]*\]|[^/?#:]*)",
    ops.ExtractFile: rf"{SCHEME}{AUTHORITY}([^#]*)",
    ops.ExtractPath: rf"{SCHEME}{AUTHORITY}([^?#]*)",
    ops.ExtractFragment: r"#(.*)",
}
QUERY = rf"{SCHEME}{AUTHORITY}{PATH}\?([^#]*)"

#: Hash functions that give hexadecimal digits.
DIGESTS = ("md5", "sha1", "sha256")


class FreestoneCompiler(DuckDBCompiler):
    """Compiles what Freestone writes in another way than DuckDB."""

    __slots__ = ()

    dialect = Freestone
    type_mapper = FreestoneType

    # A query with DISTINCT is ordered by columns of its result, as in PostgreSQL.
    post_rewrites = (split_select_distinct_with_order_by,)

    # The methods of these are inherited. Named again, they would replace the ones below.
    SIMPLE_OPS = {}

    UNSUPPORTED_OPS = tuple(op for op in vars(ops).values() if isinstance(op, type) and op.__module__.endswith("geospatial"))

    def visit_NonNullLiteral(self, op: ops.Literal, *, value: Any, dtype: dt.DataType) -> sge.Expression:
        if dtype.is_struct():
            # Fields have names, because a cast matches fields by name.
            fields = (self.visit_Literal(ops.Literal(value[name], kind), value=value[name], dtype=kind) for name, kind in dtype.items())
            return self.cast(self._struct(dtype.names, fields), dtype)
        return super().visit_NonNullLiteral(op, value=value, dtype=dtype)

    def _struct(self, names: Any, values: Any) -> sge.Struct:
        pairs = (sge.PropertyEQ(this=sge.to_identifier(name, quoted=True), expression=value) for name, value in zip(names, values))
        return sge.Struct.from_arg_list(list(pairs))

    def visit_IntegerRange(self, op: ops.IntegerRange, *, start: Any, stop: Any, step: Any) -> sge.Expression:
        return self._range(op, start, stop, step, step.eq(0))

    def visit_TimestampRange(self, op: ops.TimestampRange, *, start: Any, stop: Any, step: Any) -> sge.Expression:
        return self._range(op, start, stop, step, step.eq(sge.Interval(this=sge.convert("0"), unit=sge.Var(this="SECOND"))))

    def _range(self, op: ops.Value, start: Any, stop: Any, step: Any, is_zero: sge.Expression) -> sge.Expression:
        """A range; a step of zero gives an empty list in Ibis, and an error in SQL."""
        return self.if_(is_zero, self.cast(self.f.array(), op.dtype), self.f.range(start, stop, self.if_(is_zero, NULL, step)))

    def visit_Hash(self, op: ops.Hash, *, arg: Any) -> sge.Expression:
        # The hash has 64 bits without a sign, and Ibis expects a number with a sign.
        return self.cast(sge.BitwiseRightShift(this=self.f.hash(arg), expression=sge.convert(1)), dt.int64)

    def visit_ApproxMultiQuantile(self, op: ops.ApproxMultiQuantile, *, arg: Any, quantile: Any, where: Any) -> sge.Expression:
        return self.visit_Quantile(op, arg=arg, quantile=quantile, where=where)

    def visit_TimestampFromUNIX(self, op: ops.TimestampFromUNIX, *, arg: Any, unit: Any) -> sge.Expression:
        made = self.f[EPOCHS[unit.short]](arg)
        return self.cast(made, dt.timestamp) if unit.short == "s" else made

    def visit_ExtractEpochSeconds(self, op: ops.ExtractEpochSeconds, *, arg: Any) -> sge.Expression:
        # The fraction of the second is left out, as the type in Ibis is an integer.
        return self.cast(self.f.floor(self.f.epoch(self.cast(arg, dt.timestamp))), dt.int64)

    def visit_TryCast(self, op: ops.TryCast, *, arg: Any, to: dt.DataType) -> sge.Expression:
        source = op.arg.dtype
        if source.is_temporal() and to.is_numeric():
            return NULL
        return sge.TryCast(this=arg, to=self.type_mapper.from_ibis(to))

    def visit_TableUnnest(self, op: ops.TableUnnest, **parts: Any) -> sge.Select:
        """As in DuckDB, but fields are taken by name: those of ``list_zip`` are ``1`` and ``2``."""
        return super().visit_TableUnnest(op, **parts).transform(_by_name)

    def visit_TimestampTruncate(self, op: ops.TimestampTruncate, *, arg: Any, unit: Any) -> sge.Expression:
        return arg if unit.short == "ns" else super().visit_TimestampTruncate(op, arg=arg, unit=unit)

    def visit_Correlation(self, op: ops.Correlation, *, left: Any, right: Any, how: str, where: Any) -> sge.Expression:
        # The correlation of a sample is that of a population.
        return super().visit_Correlation(op, left=left, right=right, how="pop", where=where)

    def visit_HexDigest(self, op: ops.HexDigest, *, arg: Any, how: str) -> sge.Expression:
        if how not in DIGESTS:
            raise NotImplementedError(f"No available hashing function for {how}")
        return self.f[how](arg)

    def visit_HashBytes(self, op: ops.HashBytes, *, arg: Any, how: str) -> sge.Expression:
        return self.f.unhex(self.visit_HexDigest(op, arg=arg, how=how))

    def _url_part(self, op: ops.ExtractURLField, *, arg: Any) -> sge.Expression:
        return self._extracted(arg, sge.convert(URL_PARTS[type(op)]))

    visit_ExtractProtocol = visit_ExtractAuthority = visit_ExtractUserInfo = visit_ExtractHost = _url_part
    visit_ExtractFile = visit_ExtractPath = visit_ExtractFragment = _url_part

    def visit_ExtractQuery(self, op: ops.ExtractQuery, *, arg: Any, key: Any) -> sge.Expression:
        query = self._extracted(arg, sge.convert(QUERY))
        if key is None:
            return query
        return self._extracted(query, self.f.concat("(?:^|&)", self.f.regexp_escape(key), "=([^&]*)"))

    def _extracted(self, text: Any, pattern: Any) -> sge.Expression:
        """The group of a pattern in a text."""
        return self.f.anon.regexp_extract(text, pattern, 1)

    def visit_ArrayStringJoin(self, op: ops.ArrayStringJoin, *, arg: Any, sep: Any) -> sge.Expression:
        # Without items, Ibis expects NULL, and SQL gives the empty text.
        return self.if_(self.f.len(arg).eq(0), NULL, self.f.array_to_string(arg, sep))


def _by_name(node: sge.Expression) -> sge.Expression:
    if isinstance(node, sge.StructExtract) and isinstance(node.expression, sge.Literal):
        node.expression.set("is_string", True)
    return node


compiler = FreestoneCompiler()

# ``ibis.to_sql(…, dialect="freestone")`` looks for the compiler there.
compilers.freestone = sys.modules[__name__]
