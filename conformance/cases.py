"""Parses the file of cases."""

import dataclasses
import datetime
import decimal
import pathlib

FILE = pathlib.Path(__file__).with_name("cases.txt")


@dataclasses.dataclass
class Case:
    kind: str
    name: str
    sql: str
    state: str = ""
    parameters: list = dataclasses.field(default_factory=list)
    expected: list = dataclasses.field(default_factory=list)


def read(path=FILE):
    """All cases, in the order of the file."""
    return [case(block) for block in path.read_text(encoding="utf-8").split("\n\n") if meant(block)]


def meant(block):
    return [line for line in block.splitlines() if not line.startswith("#")]


def case(block):
    head, *body = meant(block)
    kind, name, state = (head.split(" ") + ["", ""])[:3]
    rest = "\n".join(body)
    text, _, expected = rest.partition("\n----")
    sql, parameters = [], []
    for line in text.splitlines():
        if line.startswith("$"):
            _, of, value = line.split(" ", 2)
            parameters.append((of, parameter(of, value)))
        else:
            sql.append(line)
    if kind not in ("statement", "query", "error") or not sql:
        raise ValueError(f"not a case: {head}")
    return Case(kind, name, "\n".join(sql), state, parameters, expected.strip("\n").splitlines())


def parameter(of, text):
    """The value of a parameter. `*n` is a string of n characters."""
    match of:
        case "INTEGER" | "BIGINT":
            return int(text)
        case "DOUBLE":
            return float(text)
        case "BOOLEAN":
            return text == "true"
        case "DECIMAL":
            return decimal.Decimal(text)
        case "DATE":
            return datetime.date.fromisoformat(text)
        case "TIMESTAMP":
            return datetime.datetime.fromisoformat(text)
        case "VARCHAR" if text.startswith("*"):
            return "ab" * (int(text[1:]) // 2)
        case "VARCHAR":
            return text
    raise ValueError(f"parameters of type {of} are not known")
