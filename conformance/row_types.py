"""Types of columns for the model of tables: random values, their literals, and how they are equal and ordered.

Values are Python's: None is NULL, and intervals are (months, days, microseconds), lists and structs tuples, maps tuples of pairs.
`key` makes equal values identical, as SQL compares them: there is one zero and one NaN of floats, a month has 30 days, and a day 24
hours. `exact` tells values apart that are stored differently.
"""

import dataclasses
import datetime
import decimal
import math
import re
import struct


@dataclasses.dataclass(frozen=True)
class Type:
    sql: str
    #: Values that come often, so that rows meet.
    values: tuple
    is_key: bool = True
    is_ordered: bool = True
    #: Whether values have sums.
    is_number: bool = False

    def random(self, r):
        return r.choice(self.values)

    def literal(self, value):
        return "NULL" if value is None else self._literal(value)

    def _literal(self, value):
        return str(value)

    def parameter(self, value):
        """The value for a parameter; `NotImplemented` if only the literal is used."""
        return NotImplemented

    def reads(self, column):
        """The expressions that read a column."""
        return [column]

    def parse(self, texts):
        """The value that these expressions have given."""
        return None if texts[0] is None else self._parse(texts[0])

    def _parse(self, text):
        return text

    def key(self, value):
        return value

    def order(self, value):
        return self.key(value)

    def exact(self, value):
        return value


class Integer(Type):
    def parameter(self, value):
        return value

    def _parse(self, text):
        return int(text)

    def most(self):
        return 2 ** (63 if self.sql == "BIGINT" else 31) - 1


class Text(Type):
    def _literal(self, value):
        return "'" + value.replace("'", "''") + "'"

    def parameter(self, value):
        return value

    def order(self, value):
        return value.encode()


class Boolean(Type):
    def parameter(self, value):
        return value

    def _parse(self, text):
        return text == "t"


class Double(Type):
    def _literal(self, value):
        return f"'{float_text(value)}'::DOUBLE"

    def parameter(self, value):
        return value

    def _parse(self, text):
        return float(text)

    def key(self, value):
        return "NaN" if math.isnan(value) else value + 0.0

    def order(self, value):
        return (1, 0.0) if math.isnan(value) else (0, value)

    def exact(self, value):
        return "NaN" if math.isnan(value) else struct.pack(">d", value)


def float_text(value):
    return "NaN" if math.isnan(value) else str(value).replace("inf", "Infinity")


class Decimal(Type):
    def _parse(self, text):
        return decimal.Decimal(text)


class Date(Type):
    def _literal(self, value):
        return f"DATE '{value}'"

    def _parse(self, text):
        return datetime.date.fromisoformat(text)


class Interval(Type):
    def _literal(self, value):
        months, days, micros = value
        return f"INTERVAL '{months} months {days} days {micros} microseconds'"

    def _parse(self, text):
        return parsed_interval(text)

    def key(self, value):
        months, days, micros = value
        return ((months * 30) + days) * 86_400_000_000 + micros


UNITS = {"year": 12, "mon": 1}


def parsed_interval(text):
    """The parts of an interval in PostgreSQL's form, as `1 year -2 mons 3 days -04:05:06.7`."""
    months = days = micros = 0
    for number, unit in re.findall(r"([+-]?\d+) (year|mon|day)", text):
        if unit == "day":
            days = int(number)
        else:
            months += int(number) * UNITS[unit]
    if time := re.search(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?", text):
        sign, hours, minutes, seconds, fraction = time.groups()
        micros = ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000_000 + int((fraction or "0").ljust(6, "0"))
        micros = -micros if sign else micros
    return months, days, micros


class List(Type):
    def _literal(self, value):
        return "[" + ", ".join("NULL" if item is None else str(item) for item in value) + "]::INT[]"

    def _parse(self, text):
        return tuple(None if item == "NULL" else int(item) for item in text[1:-1].split(",") if item)


class Struct(Type):
    """STRUCT(a INT, b VARCHAR)."""

    def _literal(self, value):
        a, b = value
        return f"{{'a': {'NULL' if a is None else a}, 'b': {TEXT.literal(b)}}}::{self.sql}"

    def reads(self, column):
        return [f"{column} IS NULL", f"{column}.a", f"{column}.b"]

    def parse(self, texts):
        return None if texts[0] == "t" else (None if texts[1] is None else int(texts[1]), texts[2])


class Map(Type):
    """MAP(VARCHAR, INT)."""

    KEYS = ("x", "y", "")

    def _literal(self, value):
        pairs = ", ".join(f"{TEXT.literal(key)}: {'NULL' if item is None else item}" for key, item in value)
        return f"MAP {{{pairs}}}::{self.sql}" if pairs else f"MAP([]::VARCHAR[], []::INT[])::{self.sql}"

    def reads(self, column):
        return [f"{column} IS NULL", *(part for key in self.KEYS for part in (f"{column}[{TEXT.literal(key)}]", f"cardinality({column})"))]

    def parse(self, texts):
        if texts[0] == "t":
            return None
        return (texts[1::2], texts[2])

    def exact(self, value):
        """Both a literal's pairs and what was read, as the values of the keys and the number of keys."""
        if len(value) == 2 and isinstance(value[0], list):
            return tuple(value[0]), int(value[1])
        given = dict(value)
        shown = [None if given.get(key) is None else str(given[key]) for key in self.KEYS]
        return tuple(shown), len(given)


NAN, INFINITE = math.nan, math.inf
LONG = "long " * 80
HOUR, DAY = 3_600_000_000, 86_400_000_000

INT = Integer("INT", (*range(-3, 12), *range(-3, 12), 2**31 - 1, -(2**31)), is_number=True)
BIGINT = Integer("BIGINT", (*range(-3, 12), *range(-3, 12), 2**63 - 1, -(2**63), 2**40), is_number=True)
TEXT = Text("VARCHAR", ("", "a", "b", "B", "é", "it's", "%", "ab", "abc", LONG))
BOOLEAN = Boolean("BOOLEAN", (True, False))
DOUBLE = Double("DOUBLE", (0.0, -0.0, 0.0, -0.0, 1.0, 1.5, -1.5, 2.0, NAN, INFINITE, -INFINITE, 1e300, 5e-324))
DECIMAL = Decimal("DECIMAL(10, 2)", tuple(decimal.Decimal(text) for text in ("0.00", "1.00", "1.50", "-1.50", "99999999.99")))
DATE = Date("DATE", tuple(datetime.date(*ymd) for ymd in ((1970, 1, 1), (2024, 2, 29), (1969, 12, 31), (2024, 1, 1))))
INTERVAL = Interval(
    "INTERVAL",
    ((1, 0, 0), (0, 30, 0), (0, 0, 30 * DAY), (0, 1, 0), (0, 0, DAY), (0, 0, 0), (-1, 0, HOUR), (12, 0, 0), (0, 360, 0), (0, 0, -1), (1, -30, 0)),
    is_key=False,
)
LIST = List("INT[]", ((), (1,), (1, 2), (2, 1), (None,), (1, None), (None, 1)), is_key=False, is_ordered=False)
STRUCT = Struct(
    "STRUCT(a INT, b VARCHAR)", ((1, "a"), (1, None), (None, "a"), (None, None), (2, "a")), is_key=False, is_ordered=False
)
MAP = Map("MAP(VARCHAR, INT)", ((), (("x", 1),), (("x", 1), ("y", 2)), (("", None),)), is_key=False, is_ordered=False)

ALL = (INT, BIGINT, TEXT, BOOLEAN, DOUBLE, DECIMAL, DATE, INTERVAL, LIST, STRUCT, MAP)
