"""Freestone's SQL for sqlglot: DuckDB's, apart from the division of integers and the place of NULLs."""

from __future__ import annotations

from sqlglot.dialects import DuckDB


class Freestone(DuckDB):
    """The dialect ``freestone``."""

    # 3 / 2 is 1, so sqlglot casts operands that are to be divided as floats.
    TYPED_DIVISION = True
    # NULLs are last in ascending and first in descending order.
    NULL_ORDERING = "nulls_are_large"
