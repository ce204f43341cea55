"""The result of the last ``execute``, as methods of connections."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from ._display import Row
from .exceptions import InterfaceError
from .relation import Relation


class Results:
    """Fetches the rows of the last ``execute`` of a connection."""

    _result: Optional[Relation] = None

    @property
    def description(self) -> Optional[List[Tuple[Any, ...]]]:
        """Name, type and five times None of each column of the last :meth:`execute`; None if it has no rows."""
        return self._result.description if self._result is not None and self._result.columns else None

    @property
    def rowcount(self) -> int:
        """The number of rows that the last :meth:`execute` wrote or removed; -1 for a query."""
        return -1 if self._result is None else self._result.rowcount

    def fetchone(self) -> Optional[Row]:
        """The next row of the last :meth:`execute`, or None after the last."""
        return self._executed().fetchone()

    def fetchmany(self, size: int = 1) -> List[Row]:
        """The next rows of the last :meth:`execute`."""
        return self._executed().fetchmany(size)

    def fetchall(self) -> List[Row]:
        """All remaining rows of the last :meth:`execute`."""
        return self._executed().fetchall()

    def df(self, **options: Any) -> Any:
        """All rows of the last :meth:`execute` as a ``pandas.DataFrame``."""
        return self._executed().df(**options)

    def fetchdf(self, **options: Any) -> Any:
        """The same as :meth:`df`."""
        return self._executed().df(**options)

    def pl(self) -> Any:
        """All rows of the last :meth:`execute` as a ``polars.DataFrame``."""
        return self._executed().pl()

    def arrow(self) -> Any:
        """All rows of the last :meth:`execute` as a ``pyarrow.Table``."""
        return self._executed().arrow()

    def fetch_arrow_table(self) -> Any:
        """The same as :meth:`arrow`."""
        return self._executed().arrow()

    def to_arrow_table(self) -> Any:
        """The same as :meth:`arrow`."""
        return self._executed().arrow()

    def fetch_record_batch(self, rows_per_batch: int = 1_000_000) -> Any:
        """The rows of the last :meth:`execute` as a ``pyarrow.RecordBatchReader``. See :meth:`Relation.fetch_record_batch`."""
        return self._executed().fetch_record_batch(rows_per_batch)

    def to_arrow_reader(self, batch_size: int = 1_000_000) -> Any:
        """The same as :meth:`fetch_record_batch`."""
        return self._executed().fetch_record_batch(batch_size)

    def fetch_df(self, **options: Any) -> Any:
        """The same as :meth:`df`."""
        return self._executed().df(**options)

    def fetchnumpy(self) -> Dict[str, Any]:
        """All rows of the last :meth:`execute` as numpy arrays by the name of their column."""
        return self._executed().fetchnumpy()

    def _executed(self) -> Relation:
        if self._result is None:
            raise InterfaceError("there are no rows to fetch", "call execute() with a query first")
        return self._result
