"""Functions of Python in SQL: their types, and the conversions between Arrow batches and what they take and return."""

from __future__ import annotations

import datetime
import decimal
import inspect
import typing
import uuid
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, TypeVar

from . import _freestone
from ._sql import kind, part, text_of
from .exceptions import InterfaceError, NotSupportedError, ProgrammingError

C = TypeVar("C", bound="Functions")

#: A type: the text of one in SQL, a type of Python, a pyarrow.DataType, or None for any.
Type = Any

_OF_PYTHON: Dict[Any, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "VARCHAR",
    bytes: "BLOB",
    bytearray: "BLOB",
    decimal.Decimal: "DECIMAL(38,10)",
    datetime.date: "DATE",
    datetime.time: "TIME",
    datetime.datetime: "TIMESTAMP",
    datetime.timedelta: "INTERVAL",
    uuid.UUID: "UUID",
}


def type_text(given: Type, of_arrow: Callable[[Any], str]) -> Optional[str]:
    """A type as SQL writes it; None for any. ``of_arrow`` writes one of pyarrow."""
    if given is None or given is Any or given is inspect.Parameter.empty or given is object:
        return None
    if isinstance(given, str):
        return part(given, "create_function", "the name of a type")
    if isinstance(given, typing.Hashable) and given in _OF_PYTHON:
        return _OF_PYTHON[given]
    module = type(given).__module__.partition(".")[0]
    if module == "pyarrow":
        return of_arrow(given)
    if type(given).__name__ == "DuckDBPyType":
        return str(given)
    origin, arguments = typing.get_origin(given), typing.get_args(given)
    if origin in (list, List) and len(arguments) == 1:
        item = type_text(arguments[0], of_arrow)
        return None if item is None else f"{item}[]"
    # None stands for NULL, which every type has.
    others = [argument for argument in arguments if argument is not type(None)]
    if len(others) == 1 and len(others) < len(arguments):
        return type_text(others[0], of_arrow)
    raise ProgrammingError(
        f"{given!r} is no type of SQL", "give one as text, such as 'DECIMAL(10,2)', or int, float, str, bytes, bool, date, …"
    )


def declared(function: Callable[..., Any], parameters: Any, return_type: Type) -> Tuple[List[Type], bool, Type]:
    """The types of the parameters, whether more may follow, and that of the result, as given or as annotated."""
    annotated: Dict[str, Any] = {}
    try:
        signature: Optional[inspect.Signature] = inspect.signature(function)
        annotated = typing.get_type_hints(function)
    except (TypeError, ValueError, NameError):
        signature = _signature(function)
    if return_type is None:
        return_type = annotated.get("return")
    if return_type is None:
        raise ProgrammingError("a function needs the type of its result", "give return_type='BIGINT', or annotate it: -> int")
    if parameters is not None:
        if isinstance(parameters, str) or not isinstance(parameters, typing.Sequence):
            raise ProgrammingError(f"parameters are a list of types, not {kind(parameters)}", "write ['BIGINT', 'VARCHAR']")
        return list(parameters), False, return_type
    if signature is None:
        raise ProgrammingError("the parameters of the function are not known", "give parameters=['BIGINT', …]")
    types: List[Type] = []
    for one in signature.parameters.values():
        if one.kind is one.VAR_POSITIONAL:
            return types, True, return_type
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) and one.default is one.empty:
            types.append(annotated.get(one.name))
    return types, False, return_type


def _signature(function: Callable[..., Any]) -> Optional[inspect.Signature]:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def choice(given: Any, name: str, choices: Sequence[str]) -> str:
    """One of a few words, in which case does not matter."""
    word = str(getattr(given, "name", given)).lower()
    if word not in choices:
        raise ProgrammingError(f"{name}={given!r} is none of {', '.join(choices)}")
    return word


class Functions:
    """Adds functions of Python to SQL, for the statements of a connection."""

    _native: _freestone.Connection

    def create_function(
        self: C,
        name: str,
        function: Callable[..., Any],
        parameters: Optional[Sequence[Type]] = None,
        return_type: Type = None,
        *,
        type: Any = "native",
        null_handling: Any = "default",
        exception_handling: Any = "default",
        side_effects: bool = False,
    ) -> C:
        """Adds a function of the values of a row to SQL, for this connection and for cursors that it makes from now on.

        Args:
            name: its name in SQL, in which case does not matter.
            function: a function that does not use this connection. It runs on threads of the statements.
            parameters: the types of its parameters: texts such as ``"DECIMAL(10,2)"``, types of Python or pyarrow, or None for
                any; by default as annotated.
            return_type: the type of its result; by default as annotated.
            type: ``"native"`` calls it for each row, with Python values; ``"arrow"`` for each batch of rows, with a
                ``pyarrow.ChunkedArray`` per parameter, and takes an array of as many values.
            null_handling: ``"default"``: the result is NULL where an argument is, without a call; ``"special"``: it is called.
            exception_handling: ``"default"``: an exception ends the statement; ``"return_null"``: the result is NULL.
            side_effects: whether each row needs a call, because results differ, or calls do something else. By default, calls
                with equal arguments may be made once, or not at all.

        Raises:
            ProgrammingError: a function of this name exists, or a type is none.
            NotSupportedError: the database is on a server.
        """
        body = OfRows if choice(type, "type", ("native", "arrow")) == "native" else OfArrays
        self._create(name, function, (parameters, return_type), body, (null_handling, exception_handling, side_effects), False)
        return self

    def create_aggregate(
        self: C,
        name: str,
        function: Callable[..., Any],
        parameters: Optional[Sequence[Type]] = None,
        return_type: Type = None,
        *,
        type: Any = "native",
        null_handling: Any = "default",
        exception_handling: Any = "default",
        side_effects: bool = False,
    ) -> C:
        """Adds an aggregate to SQL. The arguments are those of :meth:`create_function`, with these differences.

        Args:
            function: takes all values of a group, and returns one value.
            type: ``"native"`` passes a list per parameter, ``"arrow"`` a ``pyarrow.ChunkedArray``.
            null_handling: ``"default"`` leaves rows with a NULL out, and a group without others has the result NULL;
                ``"special"`` passes them, and is called for no rows, too.
        """
        of_arrays = choice(type, "type", ("native", "arrow")) == "arrow"

        def body(function: Callable[..., Any], arrow_type: Any, return_null: bool) -> Body:
            return OfGroup(function, arrow_type, of_arrays, return_null)

        self._create(name, function, (parameters, return_type), body, (null_handling, exception_handling, side_effects), True)
        return self

    def remove_function(self: C, name: str) -> C:
        """Removes a function or aggregate of this connection.

        Raises:
            ProgrammingError: there is none of this name.
        """
        self._native.remove_function(text_of(name, "remove_function", "the name of a function"))
        return self

    def _create(
        self,
        name: str,
        function: Callable[..., Any],
        types: Tuple[Optional[Sequence[Type]], Type],
        body: Callable[[Callable[..., Any], Any, bool], Body],
        handling: Tuple[Any, Any, bool],
        aggregate: bool,
    ) -> None:
        import pyarrow

        text_of(name, "create_function", "a name for the function")
        if not callable(function):
            raise InterfaceError(f"create_function() takes a function, not {kind(function)}")
        if self._native.remote:
            raise NotSupportedError(
                "functions of Python run in this process, and the database is on a server",
                "fetch the rows and compute with them here, or open the database in this process",
            )
        nulls, exceptions, side_effects = handling
        takes_nulls = choice(nulls, "null_handling", ("default", "special")) == "special"
        return_null = choice(exceptions, "exception_handling", ("default", "return_null")) == "return_null"
        parameters, accepts_more, return_type = declared(function, *types)
        texts = [type_text(given, self._text_of_arrow) for given in [*parameters, return_type]]
        if texts[-1] is None:
            raise ProgrammingError("the result of a function has one type", "give return_type='VARCHAR'")
        columns = (f"CAST(NULL AS {text or 'INTEGER'}) AS a{at}" for at, text in enumerate(texts))
        query = self._native.run(f"SELECT {', '.join(columns)}", None, lambda _: None)
        any_type = [at for at, text in enumerate(texts) if text is None]
        made = body(function, pyarrow.table(query.collect()).schema.types[-1], return_null)
        self._native.create_function(name, made, query, any_type, accepts_more, takes_nulls, bool(side_effects), aggregate)

    def _text_of_arrow(self, given: Any) -> str:
        """A type of pyarrow as SQL writes it."""
        import pyarrow

        if not isinstance(given, pyarrow.DataType):
            raise ProgrammingError(f"{given!r} is no type", "give a pyarrow.DataType")
        empty = pyarrow.table([pyarrow.array([], given)], names=["a"]), True
        return self._native.run('SELECT * FROM "freestone$type"', None, {"freestone$type": empty}.get).types[0]


class Body:
    """What the engine calls: ``compute`` runs the function, whose exceptions are its own; ``converted`` makes Arrow of the result."""

    def __init__(self, function: Callable[..., Any], arrow_type: Any) -> None:
        self._function = function
        self._type = arrow_type

    def compute(self, batch: Any) -> Any:
        raise NotImplementedError

    def converted(self, values: Any) -> Any:
        """The values as the only column of a table."""
        import pyarrow

        if not isinstance(values, (pyarrow.Array, pyarrow.ChunkedArray)):
            values = pyarrow.array(self._plain(values), self._type, from_pandas=not isinstance(values, list))
        return pyarrow.table([values], names=["result"])

    def _plain(self, values: Any) -> Any:
        if str(self._type) != "fixed_size_binary[16]":
            return values
        return [value.bytes if isinstance(value, uuid.UUID) else value for value in values]


class OfRows(Body):
    """A function that is called for each row, with Python values."""

    def __init__(self, function: Callable[..., Any], arrow_type: Any, return_null: bool) -> None:
        super().__init__(self._caught(function) if return_null else function, arrow_type)

    def compute(self, batch: Any) -> Any:
        function, columns = self._function, batch.columns()
        return [function(*row) for row in zip(*columns)] if columns else [function() for _ in range(batch.num_rows)]

    @staticmethod
    def _caught(function: Callable[..., Any]) -> Callable[..., Any]:
        def caught(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except Exception:  # noqa: BLE001 - this is what exception_handling='return_null' asks for
                return None

        return caught


class OfArrays(Body):
    """A function that is called for each batch, with a ``pyarrow.ChunkedArray`` per argument."""

    def __init__(self, function: Callable[..., Any], arrow_type: Any, return_null: bool) -> None:
        super().__init__(function, arrow_type)
        self._return_null = return_null

    def compute(self, batch: Any) -> Any:
        arguments = _arrays(batch)
        if not self._return_null:
            return self._function(*arguments)
        try:
            return self._function(*arguments)
        except Exception:  # noqa: BLE001 - this is what exception_handling='return_null' asks for
            return [None] * batch.num_rows


class OfGroup(Body):
    """An aggregate, which is called for each group, with a list of values or an array per argument."""

    def __init__(self, function: Callable[..., Any], arrow_type: Any, of_arrays: bool, return_null: bool) -> None:
        super().__init__(OfRows._caught(function) if return_null else function, arrow_type)
        self._of_arrays = of_arrays

    def compute(self, batch: Any) -> Any:
        return self._function(*(_arrays(batch) if self._of_arrays else batch.columns()))

    def converted(self, values: Any) -> Any:
        value = values.as_py() if hasattr(values, "as_py") else values
        return super().converted([value])


def _arrays(batch: Any) -> List[Any]:
    import pyarrow

    return list(pyarrow.table(batch).columns)
