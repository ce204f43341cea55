"""Connections."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Union

from . import _freestone
from ._functions import Functions
from ._origin import Parameters, started
from ._readers import Readers, no_table
from ._results import Results
from ._sources import Variables, as_table, caller, finder
from ._sql import file_path, isolation_level, literal, quoted, text_of, written_options, written_table
from .exceptions import Error, InterfaceError, OperationalError, ProgrammingError
from .relation import Relation

#: The SQLSTATE of a COMMIT without a transaction.
NO_TRANSACTION = "25P01"

#: A source of rows: the path of a file, or an object that exports Arrow data.
Source = Any


def connect(
    path: Union[str, "os.PathLike[str]"] = ":memory:",
    *,
    read_only: bool = False,
    threads: Optional[int] = None,
    memory_limit: Union[int, str, None] = None,
    pmem: Optional[str] = None,
) -> "Connection":
    """Opens a database.

    Args:
        path: the database folder, which is created if it does not exist; ``":memory:"`` for a database in memory,
            which is deleted with its last connection; or the address of a server,
            ``freestone://user:password@host:port``. The other arguments do not apply to a server, which has its own
            settings. The environment variable ``FREESTONE_PASSWORD`` may contain the password.
        read_only: statements that write are refused, and so is a folder that does not exist.
        threads: the number of threads that execute statements; by default one per core.
        memory_limit: the most bytes of memory that the database may use, as a number or as text such as ``"2GB"`` or
            ``"512MiB"``; by default three quarters of the machine's memory. Statements that need more use temporary
            files or fail.
        pmem: ``"emulated"`` keeps tables with ``medium = 'pmem'`` in an ordinary file where there is no persistent
            memory. They survive the end of the process, but no power loss.

    Raises:
        OperationalError: the folder cannot be opened, or the server cannot be reached.
    """
    limit = None if memory_limit is None else str(memory_limit)
    return Connection(_freestone.Connection(os.fspath(path), read_only, threads, limit, pmem))


class Connection(Readers, Results, Functions):
    """A connection to a database, made by :func:`connect`.

    Outside of :meth:`transaction`, each statement is a transaction of its own: it reads one snapshot, and commits when
    it succeeds. Several threads may use a connection at the same time, but not while it is in a transaction.
    :meth:`cursor` returns another connection to the same database, with settings and transactions of its own. Close a
    connection with ``with`` or :meth:`close`.
    """

    def __init__(self, native: _freestone.Connection) -> None:
        self._native = native
        # Objects that statements read as tables, by their names in lower case.
        self._registered: Dict[str, Any] = {}

    def sql(self, text: str, params: Optional[Parameters] = None) -> Relation:
        """Runs SQL.

        A query is checked at once, and runs when rows of the relation are fetched. Any other statement runs at once. If
        the text has several statements, all of them run. The relation is that of the last one, and the parameters are
        for the last one.

        A table name that does not exist in the database may be the name of a variable of the caller: a pandas or Polars
        DataFrame, a pyarrow Table, RecordBatch, RecordBatchReader or Dataset, a Relation, or any other object with
        ``__arrow_c_stream__``. Its rows are read in place, without a copy. A stream can be read once. If the database
        is on a server, the rows are sent with the statement, and the server stores them in memory while it runs; only
        streams are not stored.

        Args:
            text: one statement, or several statements separated by semicolons.
            params: values for ``$1``, ``$2``, … or ``?`` in a list, or for ``$name`` in a dict. They may be int, float,
                bool, str, bytes, Decimal, date, datetime, time, timedelta, UUID, None, scalars of numpy, and lists and
                dicts of these.

        Raises:
            Error: the statement failed; the subclass says why.
        """
        return self._sql(text, params, finder(caller(1)))

    def query(self, text: str, params: Optional[Parameters] = None) -> Relation:
        """The same as :meth:`sql`."""
        return self._sql(text, params, finder(caller(1)))

    def execute(self, text: str, params: Optional[Parameters] = None) -> Relation:
        """Runs SQL like :meth:`sql`, and keeps the relation, whose rows the connection's ``fetch`` methods give as well."""
        return self._execute(text, params, finder(caller(1)))

    def from_query(self, text: str, params: Optional[Parameters] = None) -> Relation:
        """The same as :meth:`sql`."""
        return self._sql(text, params, finder(caller(1)))

    def _execute(self, text: str, params: Optional[Parameters], variables: Variables) -> Relation:
        self._result = None
        self._result = self._sql(text, params, variables)
        return self._result

    def executemany(self, text: str, params: Iterable[Parameters]) -> "Connection":
        """Runs a statement once per set of parameters.

        An ``INSERT … VALUES (…)`` of one row inserts the rows of all sets in one commit, or none. Any other statement commits
        once per set, outside of a transaction. For large numbers of rows use :meth:`load` or :meth:`append`.

        Raises:
            ProgrammingError: the statement returns rows.
        """
        self._result = None
        sets = list(params)
        if sets and self._native.run_many(text, sets, self._native.in_transaction) is None:
            for given in sets:
                if self._run(text, given).columns:
                    raise ProgrammingError("executemany() takes statements without rows", "call execute() for each query")
        return self

    def append(self, table_name: str, df: Any, by_name: bool = False) -> "Connection":
        """Adds the rows of a DataFrame, or of anything else that :meth:`sql` reads as a table, to a table.

        Args:
            table_name: ``table`` or ``schema.table``. Case matters.
            df: the rows.
            by_name: whether columns are matched by name, and those of the table that are missing get their default; otherwise by
                position.
        """
        written, found = written_table(table_name, "append"), as_table(df)
        if found is None:
            raise no_table(f"append({table_name!r}, …)", df)
        words = " BY NAME" if by_name else ""
        self._run(f'INSERT INTO {written}{words} SELECT * FROM "freestone$source"', **{"freestone$source": found})
        return self

    def _sql(self, text: str, params: Optional[Parameters], variables: Variables) -> Relation:
        return Relation(*started(self._origin(params), text, variables))

    def register(self, name: str, python_object: Any) -> "Connection":
        """Names a DataFrame, or anything else that :meth:`sql` reads as a table, for the statements of this connection.

        Args:
            name: the name of the table. Case does not matter.
            python_object: the object, which stays alive until :meth:`unregister`. A stream can be read once.

        Raises:
            ProgrammingError: the object is no table, or the database has a table or view of this name.
        """
        text_of(name, "register", "a name for the table")
        if as_table(python_object) is None:
            raise no_table(f"register({name!r}, …)", python_object)
        exists = """SELECT table_type FROM information_schema.tables
            WHERE table_name IN ($1, lower($1)) AND table_schema IN (current_schema(), 'pg_temp')"""
        for (kind,) in self._run(exists, [name]).fetchall():
            raise ProgrammingError(
                f"the database has a {'view' if kind == 'VIEW' else 'table'} {name}, which statements would read",
                "choose another name for the object",
            )
        self._registered[name.lower()] = python_object
        return self

    def unregister(self, name: str) -> "Connection":
        """Forgets an object of :meth:`register`. Does nothing if there is none of this name."""
        text_of(name, "unregister", "the name of a table")
        self._registered.pop(name.lower(), None)
        return self

    def begin(self) -> "Connection":
        """Begins a transaction, which :meth:`commit` or :meth:`rollback` ends. :meth:`transaction` does both."""
        self._run("BEGIN")
        return self

    def commit(self) -> "Connection":
        """Makes the changes of the transaction durable, and visible to others. Does nothing if none is open.

        Raises:
            OperationalError: another transaction has changed the same rows, or a statement failed. In both cases, the
                transaction was rolled back.
        """
        self._end("COMMIT")
        return self

    def rollback(self) -> "Connection":
        """Undoes all changes of the transaction. Does nothing if none is open."""
        self._end("ROLLBACK")
        return self

    def _end(self, statement: str) -> None:
        try:
            self._run(statement)
        except OperationalError as error:
            if error.sqlstate != NO_TRANSACTION:
                raise

    def _run(self, text: str, params: Optional[Parameters] = None, **tables: Any) -> Relation:
        return Relation(self._native.run(text, params, tables.get), self._origin(params, tables))

    @contextlib.contextmanager
    def transaction(self, isolation: Optional[str] = None, *, read_only: bool = False) -> Iterator["Connection"]:
        """A transaction of several statements, as a ``with`` block.

        It commits at the end of the block. If the block raises an exception, it is rolled back.

        >>> with db.transaction():
        ...     db.sql("UPDATE accounts SET amount = amount - 10 WHERE id = 1")
        ...     db.sql("UPDATE accounts SET amount = amount + 10 WHERE id = 2")

        Args:
            isolation: ``"REPEATABLE READ"`` (the default), which is snapshot isolation, or ``"READ COMMITTED"``.
            read_only: statements that write are refused.

        Raises:
            OperationalError: a transaction is open already, another transaction has changed the same rows (roll back
                and repeat), or a statement of the block failed and its exception was caught inside.
        """
        modes = [f"ISOLATION LEVEL {isolation_level(isolation)}"] if isolation else []
        modes += ["READ ONLY"] if read_only else []
        self._run(f"BEGIN {', '.join(modes)}")
        try:
            yield self
        except BaseException:
            # A connection that is closed has rolled back already.
            with contextlib.suppress(Error):
                self._run("ROLLBACK")
            raise
        self._run("COMMIT")

    def load(
        self,
        table: str,
        source: Source,
        design: Union[str, Mapping[str, Any]] = "auto",
        *,
        append: bool = False,
        **options: Any,
    ) -> int:
        """Creates a table from a file, a DataFrame or a stream, and returns the number of rows loaded.

        The rows are streamed, to a server as well, so the source may be larger than memory. Either all rows are loaded
        or none. Files are read on this machine.

        Args:
            table: the name of the table. Case matters.
            source: a path (``.csv``, ``.tsv``, ``.json``, ``.parquet``, ``.arrow``; a folder or a pattern such as
                ``"dir/*.parquet"``), or any object that :meth:`sql` accepts as a table.
            design: the name of a design (``"auto"``, ``"row"``, ``"column"``, ``"slotted"``, ``"pax"``), or all design
                options in a dict.
            append: if the table exists, the rows are added to it, with the columns matched by name; else it is created.
            options: further design options, such as ``sort="a, b"``, ``column_groups="(a, b), (c)"``, ``page_size="64KiB"``.

        Raises:
            ProgrammingError: the table exists and ``append`` is false, a design option is unknown, or the file does
                not exist.
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
                f"leave the design out, or convert the table: ALTER TABLE {quoted(table)} SET DESIGN (…)",
            )
        if exists:
            done = self._append_file(table, source) if is_file else self._append_rows(table, source)
        else:
            rows = literal(file_path(source)) if is_file else '"freestone$source"'
            create = f"CREATE TABLE {quoted(table)} WITH ({written_options(given)}) AS SELECT * FROM {rows}"
            done = self._run(create) if is_file else self._run(create, **{"freestone$source": self._rows(source)})
        return max(done.rowcount, 0)

    def _rows(self, source: Source) -> Any:
        rows, stays = _readable(source)
        # A server writes the rows while it receives them, without storing them in memory, so they are read once.
        return rows, stays and not self._native.remote

    def _load_file_from_here(self, table: str, path: Any, design: Mapping[str, Any], append: bool) -> int:
        """Loads a file of this machine into a table of a server. The file is parsed in this process."""
        if not (append and table in self.tables()):
            with _here() as here:
                rows = here._run(f"SELECT * FROM {literal(file_path(path))}")
                return self.load(table, rows, dict(design))
        # The types of the columns decide how the file is parsed, so the file is first loaded into a local table with
        # the columns of the server's table.
        with tempfile.TemporaryDirectory(prefix="freestone-") as folder, _here(Path(folder) / "db") as here:
            like = self._run(f"SELECT * FROM {quoted(table)} LIMIT 0").arrow()
            here.load("rows", like)
            here._run(f"COPY rows FROM {literal(file_path(path))}")
            return self.load(table, here._run("SELECT * FROM rows"), dict(design), append=True)

    def _append_file(self, table: str, path: Any) -> Relation:
        return self._run(f"COPY {quoted(table)} FROM {literal(file_path(path))}")

    def _append_rows(self, table: str, source: Source) -> Relation:
        import pyarrow

        rows, stays = self._rows(source)
        rows = pyarrow.table(rows) if stays else pyarrow.RecordBatchReader.from_stream(rows)
        names = rows.schema.names
        columns = ", ".join(quoted(name) for name in names)
        insert = f'INSERT INTO {quoted(table)} ({columns}) SELECT * FROM "freestone$source"'
        return self._run(insert, **{"freestone$source": (rows, stays)})

    def tables(self) -> List[str]:
        """The names of the tables, sorted."""
        return [name for (name,) in self._run("SELECT name FROM freestone_tables() ORDER BY name")]

    def design(self, table: str) -> Dict[str, str]:
        """The design of a table: the options of ``WITH (…)`` and ``SET DESIGN (…)`` with their values.

        Raises:
            ProgrammingError: there is no such table.
        """
        return dict(self._run(f"SELECT * FROM freestone_design({literal(table)})").fetchall())

    def advise(
        self, table: Optional[str] = None, *, budget: Optional[str] = None, copies: Optional[int] = None
    ) -> Relation:
        """Recommends designs for a table, or for all tables in the workload log.

        The costs of designs are predicted, and the best designs are then measured on a sample. The best is first.

        Args:
            table: the name of the table; None for all tables.
            budget: the maximum bytes of a table with its copies, such as ``"2GB"``.
            copies: the maximum number of copies of a table in different designs, including the table itself.

        Raises:
            ProgrammingError: there is no such table, or no query on it is in the workload log.
        """
        words = ["ADVISE"]
        words += [quoted(table)] if table is not None else []
        words += ["COPIES", str(int(copies))] if copies is not None else []
        words += ["BUDGET", literal(budget)] if budget is not None else []
        return self._run(" ".join(words))

    def cursor(self) -> "Connection":
        """Another connection to the same database. It has its own settings, and is cancelled and closed separately."""
        return Connection(self._native.another())

    def duplicate(self) -> "Connection":
        """The same as :meth:`cursor`."""
        return self.cursor()

    def interrupt(self) -> None:
        """The same as :meth:`cancel`."""
        self.cancel()

    def cancel(self) -> None:
        """Cancels the running statements, which raise :class:`CancelledError`. For use from another thread."""
        self._native.cancel()

    def close(self) -> None:
        """Cancels the running statements and closes the connection. Its relations return no more rows."""
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
    """A database in this process, which reads and writes files of this machine for a connection to a server."""
    return Connection(_freestone.Connection(os.fspath(path)))


def _readable(source: Source) -> Any:
    found = as_table(source)
    if found is None:
        raise ProgrammingError(
            f"cannot load a {type(source).__module__}.{type(source).__name__}",
            "give a file's path, a DataFrame, or anything that gives Arrow (__arrow_c_stream__)",
        )
    return found
