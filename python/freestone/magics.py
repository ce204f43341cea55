"""Magics of IPython and Jupyter, loaded by ``%load_ext freestone``.

``%sql SELECT …`` in a line, or ``%%sql`` above a cell, runs SQL and shows its rows::

    %%sql --db sales.db big <<
    SELECT * FROM orders WHERE amount > $least

``--db`` gives the database: a path, a server's address, or the name of a variable with a connection. Later magics use the
same one. Without any, it is the database in memory of ``freestone.sql``. ``name <<`` assigns the relation to a variable and
shows nothing. ``$name`` is a parameter, with the value of the variable of that name. DataFrames are tables by the names of
their variables, as for ``freestone.sql``.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Optional

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

import freestone

from ._sources import finder_in
from ._sql import parameter_names
from .connection import Connection, connect
from .exceptions import ProgrammingError
from .relation import Relation

_LINE = re.compile(r"\s*(?:--db(?:=|\s+)(?P<db>\"[^\"]*\"|'[^']*'|\S+))?\s*(?:(?P<name>[^\W\d]\w*)\s*<<)?(?P<text>.*)", re.DOTALL)


@magics_class
class SqlMagics(Magics):
    """``%sql`` and ``%%sql``."""

    shell: Any

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._opened: Dict[str, Connection] = {}
        self._current: Optional[Connection] = None

    @no_var_expand
    @line_cell_magic
    def sql(self, line: str, cell: str = "") -> Optional[Relation]:
        """``%sql [--db DATABASE] [variable <<] SQL``, or the same with the SQL in the cell."""
        parts = _LINE.fullmatch(line)
        assert parts is not None, "the pattern matches every text"
        if re.match(r"--\w", parts["text"].lstrip()):
            raise UsageError(f"unknown option {parts['text'].split()[0]}; %sql has --db")
        connection = self._connection(parts["db"])
        text = f"{parts['text']}\n{cell}".strip()
        if not text:
            if parts["db"] is None:
                raise UsageError("%sql [--db DATABASE] [variable <<] SQL")
            return None
        relation = connection._sql(text, self._parameters(text), finder_in(self.shell.user_ns))
        if parts["name"] is None:
            return relation
        self.shell.user_ns[parts["name"]] = relation
        return None

    def _connection(self, given: Optional[str]) -> Connection:
        """The connection of ``--db``, which stays that of later magics."""
        if given is not None:
            self._current = self._named(given.strip("\"'"))
        if self._current is not None and self._current.closed and given is None:
            self._current = None
        return self._current or freestone.default_connection()

    def _named(self, given: str) -> Connection:
        variable = self.shell.user_ns.get(given)
        if isinstance(variable, Connection):
            return variable
        opened = self._opened.get(given)
        if opened is None or opened.closed:
            opened = self._opened[given] = connect(given)
        return opened

    def _parameters(self, text: str) -> Optional[Dict[str, Any]]:
        names = parameter_names(text)
        for name in names:
            if name not in self.shell.user_ns:
                raise ProgrammingError(f"parameter ${name} has no value", f"assign one to the variable {name}")
        return {name: self.shell.user_ns[name] for name in names} or None
