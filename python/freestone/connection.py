"""Connections."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import _freestone
from ._sources import as_table, caller, finder
from .exceptions import InterfaceError, ProgrammingError
from .relation import Relation

#: Values of parameters: by number, or by name.
Parameters = Union[Sequence[Any], Mapping[str, Any]]

#: What tables are loaded from: files, or anything that gives Arrow.
Source = Any


def connect(
    path: Union[str, "os.PathLike[str]"] = ":memory:",
    *,
    read_only: bool = False,
    threads: Optional[int] = None,
    memory_limit: Union[int, str, None] = None,
) -> "Connection":
    """Opens a database.

    Args:
        path: the database's folder, which is created when it is missing; ``":memory:"`` for one that ends with its
            last connection; or the address of a server, ``freestone://user:password@host:port``, which has the other
            options. The password may be in the environment variable ``FREESTONE_PASSWORD``.
        read_only: refuses every statement that writes, and a folder that does not exist.
        threads: threads that work on statements; by default one for each core.
        memory_limit: bytes that the database may hold, as a number or as text such as ``"2GB"`` or ``"512MiB"``; by
            default three quarters of the machine's memory. Past it statements spill to disk, or fail.

    Raises:
        OperationalError: the folder cannot be opened, or the server not be reached.
    """
    limit = None if memory_limit is None else str(memory_limit)
    return Connection(_freestone.Connection(os.fspath(path), read_only, threads, limit))


class Connection:
    """A connection to a database, made by :func:`connect`.

    Each statement commits by itself when it succeeds, and reads one snapshot. Several threads may use a connection at
    the same time; :meth:`cursor` gives another one on the same database, with settings of its own. Use it in ``with``,
    or :meth:`close` it.
    """

    def __init__(self, native: _freestone.Connection) -> None:
        self._native = native

    def sql(self, text: str, params: Optional[Parameters] = None) -> Relation:
        """Runs SQL.

        A query is checked now, and runs when the relation's rows are asked for. Any other statement runs at once. Of a
        script with several statements all run; the last one gives the relation, and takes the parameters.

        A table name that the database does not have may be a variable of the caller's that holds a table: a pandas or
        Polars DataFrame, a pyarrow Table, RecordBatch, RecordBatchReader or Dataset, a Relation, or anything else with
        ``__arrow_c_stream__``. Rows are read where they are, without a copy. A stream can be read once. On a server
        the rows are sent along with the statement; all but streams are held there while it runs.

        Args:
            text: one statement, or several separated by semicolons.
            params: values for ``$1``, ``$2``, … or ``?`` in a list, or for ``$name`` in a dict: int, float, bool, str,
                bytes, Decimal, date, datetime, time, timedelta, UUID, None and numpy's scalars; lists and dicts of
                them.

        Raises:
            Error: one of its subclasses, as the statement failed.
        """
        return self._sql(text, params, caller(1))

    def _sql(self, text: str, params: Optional[Parameters], frame: Any) -> Relation:
        return Relation(self._native.run(text, params, finder(frame)))

    def _run(self, text: str, params: Optional[Parameters] = None, **tables: Any) -> Relation:
        return Relation(self._native.run(text, params, tables.get))

    def load(
        self,
        table: str,
        source: Source,
        design: Union[str, Mapping[str, Any]] = "auto",
        *,
        append: bool = False,
        **options: Any,
    ) -> int:
        """Creates a table from a file, a DataFrame or a stream, and returns how many rows it loaded.

        The rows are streamed, also to a server: more than fits in memory can be loaded. Either all of them are there
        afterwards, or none. Files are those of this machine.

        Args:
            table: the table's name, as it is (case counts).
            source: a path (``.csv``, ``.tsv``, ``.json``, ``.parquet``, ``.arrow``; a folder or a pattern such as
                ``"dir/*.parquet"``), or anything that :meth:`sql` reads by name.
            design: a design's name (``"auto"``, ``"row"``, ``"column"``, ``"slotted"``, ``"pax"``), or all design
                options in a dict.
            append: adds to a table that exists, by the names of its columns; creates it where it does not.
            options: more design options: ``sort="a, b"``, ``groups="(a, b), (c)"``, ``page_size="64KiB"``, …

        Raises:
            ProgrammingError: the table exists and ``append`` is false; an unknown design option; no such file.
            DataError: a value does not fit the type of its column.
        """
        given = dict(design) if isinstance(design, Mapping) else {"design": design}
        given.update(options)
        is_file = isinstance(source, (str, os.PathLike))
        if is_file and self._native.remote:
            return self._load_file_from_here(table, source, given, append)
        exists = append and table in self.tables()
        if exists and given != {"design": "auto"}:
            raise ProgrammingError(
                f"table {table} exists, so its design is not chosen here",
                f"leave the design out, or convert the table: ALTER TABLE {_name(table)} SET DESIGN (…)",
            )
        if exists:
            done = self._append_file(table, source) if is_file else self._append_rows(table, source)
        else:
            rows = _text(_path(source)) if is_file else '"freestone$source"'
            create = f"CREATE TABLE {_name(table)} WITH ({_options(given)}) AS SELECT * FROM {rows}"
            done = self._run(create) if is_file else self._run(create, **{"freestone$source": self._rows(source)})
        return max(done.rowcount, 0)

    def _rows(self, source: Source) -> Any:
        rows, stays = _readable(source)
        # A server takes them while it writes them, and holds none.
        return rows, stays and not self._native.remote

    def _load_file_from_here(self, table: str, path: Any, design: Mapping[str, Any], append: bool) -> int:
        """Loads a file of this machine into a server's table: the engine reads it here."""
        if not (append and table in self.tables()):
            with _here() as here:
                rows = here._run(f"SELECT * FROM {_text(_path(path))}")
                return self.load(table, rows, dict(design))
        # The columns' types decide what the file's values mean, so it is copied into a table like the server's first.
        with tempfile.TemporaryDirectory(prefix="freestone-") as folder, _here(Path(folder) / "db") as here:
            like = self._run(f"SELECT * FROM {_name(table)} LIMIT 0").arrow()
            here.load("rows", like)
            here._run(f"COPY rows FROM {_text(_path(path))}")
            return self.load(table, here._run("SELECT * FROM rows"), dict(design), append=True)

    def _append_file(self, table: str, path: Any) -> Relation:
        return self._run(f"COPY {_name(table)} FROM {_text(_path(path))}")

    def _append_rows(self, table: str, source: Source) -> Relation:
        import pyarrow

        rows, stays = self._rows(source)
        rows = pyarrow.table(rows) if stays else pyarrow.RecordBatchReader.from_stream(rows)
        names = rows.schema.names
        columns = ", ".join(_name(name) for name in names)
        insert = f'INSERT INTO {_name(table)} ({columns}) SELECT * FROM "freestone$source"'
        return self._run(insert, **{"freestone$source": (rows, stays)})

    def tables(self) -> List[str]:
        """The names of the database's tables, in order."""
        return [name for (name,) in self._run("SELECT name FROM freestone_tables() ORDER BY name")]

    def design(self, table: str) -> Dict[str, str]:
        """A table's design: the options that ``WITH (…)`` and ``SET DESIGN (…)`` take, with their values.

        Raises:
            ProgrammingError: there is no such table.
        """
        return dict(self._run(f"SELECT * FROM freestone_design({_text(table)})").fetchall())

    def advise(
        self, table: Optional[str] = None, *, budget: Optional[str] = None, copies: Optional[int] = None
    ) -> Relation:
        """Designs for a table, or for all that queries read: predicted, tried on a sample, the best first.

        Args:
            budget: what a table may take, copies included, as ``"2GB"``.
            copies: how many copies of a table in designs of their own may be advised, the table itself included.

        Raises:
            ProgrammingError: there is no such table, or no query on it is in the workload log.
        """
        words = ["ADVISE"]
        words += [_name(table)] if table is not None else []
        words += ["COPIES", str(int(copies))] if copies is not None else []
        words += ["BUDGET", _text(budget)] if budget is not None else []
        return self._run(" ".join(words))

    def cursor(self) -> "Connection":
        """Another connection to the same database, with settings of its own, cancelled and closed on its own."""
        return Connection(self._native.another())

    def cancel(self) -> None:
        """Cancels the statements that run now; they raise :class:`CancelledError`. Called from another thread."""
        self._native.cancel()

    def close(self) -> None:
        """Cancels what runs, and lets go of the database. Relations of it give no more rows."""
        self._native.close()

    @property
    def closed(self) -> bool:
        """Whether the connection was closed."""
        return self._native.closed

    def __enter__(self) -> "Connection":
        if self.closed:
            raise InterfaceError("the connection is closed", "open another one with freestone.connect()")
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<freestone.Connection{' (closed)' if self.closed else ''}>"


def _here(path: Union[str, Path] = ":memory:") -> Connection:
    """A database in this process, for what a server cannot do: files of this machine."""
    return Connection(_freestone.Connection(os.fspath(path)))


def _readable(source: Source) -> Any:
    found = as_table(source)
    if found is None:
        raise ProgrammingError(
            f"cannot load a {type(source).__module__}.{type(source).__name__}",
            "give a file's path, a DataFrame, or anything that gives Arrow (__arrow_c_stream__)",
        )
    return found


def _options(given: Mapping[str, Any]) -> str:
    for name in given:
        if not name.isidentifier():
            raise ProgrammingError(f"{name!r} is not the name of a design option")
    return ", ".join(f"{name} = {_text(str(value))}" for name, value in given.items())


def _path(path: Any) -> str:
    """A path that cannot be taken for a table's name."""
    path = os.fspath(path)
    return path if os.sep in path else os.path.join(os.curdir, path)


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
