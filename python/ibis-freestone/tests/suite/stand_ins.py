"""Seeded stand-ins for the tables that Ibis' own tests read, because Ibis' packages do not contain them.

The columns and the kinds of values are those of the originals: ``functional_alltypes`` follows its published rule, the
others have random rows.
"""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
from ibis.backends.conftest import TEST_TABLES

Columns = dict[str, list[Any]]


def write(folder: Path) -> Path:
    """Writes all tables as Parquet and CSV files, and returns the folder."""
    for kind in ("parquet", "csv"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    for name, make in MAKERS.items():
        table = pa.table(make(random.Random(name)), schema=TEST_TABLES[name].to_pyarrow())
        parquet.write_table(table, folder / "parquet" / f"{name}.parquet")
        csv.write_csv(table, folder / "csv" / f"{name}.csv")
    return folder


def _functional_alltypes(_: random.Random) -> Columns:
    first, rows = datetime.date(2009, 1, 1), range(7300)
    days = [first + datetime.timedelta(days=i // 10) for i in rows]
    # The minutes count the rows of a month, and the fraction of the second follows the triangular numbers of these.
    in_month = [(day.day - 1) * 10 + i % 10 for i, day in enumerate(days)]
    times = [
        datetime.datetime(day.year, day.month, day.day)
        + datetime.timedelta(hours=n // 60, minutes=n % 60, milliseconds=10 * (n * (n - 1) // 2 % 100))
        for day, n in zip(days, in_month)
    ]
    return {
        "id": [*rows[-1000:], *rows[:-1000]],
        "bool_col": [i % 2 == 0 for i in rows],
        "tinyint_col": [i % 10 for i in rows],
        "smallint_col": [i % 10 for i in rows],
        "int_col": [i % 10 for i in rows],
        "bigint_col": [i % 10 * 10 for i in rows],
        "float_col": [i % 10 * 1.1 for i in rows],
        "double_col": [i % 10 * 10.1 for i in rows],
        "date_string_col": [day.strftime("%m/%d/%y") for day in days],
        "string_col": [str(i % 10) for i in rows],
        "timestamp_col": times,
        "year": [day.year for day in days],
        "month": [day.month for day in days],
    }


def _diamonds(draw: random.Random) -> Columns:
    rows = range(5394)
    carat = [round(0.2 + draw.expovariate(1.7), 2) for _ in rows]
    return {
        "carat": carat,
        "cut": [draw.choice(["Ideal", "Premium", "Very Good", "Good", "Fair"]) for _ in rows],
        "color": [draw.choice("DEFGHIJ") for _ in rows],
        "clarity": [draw.choice(["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"]) for _ in rows],
        "depth": [round(draw.gauss(61.7, 1.4), 1) for _ in rows],
        "table": [round(draw.gauss(57.5, 2.2), 1) for _ in rows],
        "price": [int(326 + 4000 * c * draw.random()) for c in carat],
        "x": [round(6.5 * c ** (1 / 3), 2) for c in carat],
        "y": [round(6.4 * c ** (1 / 3), 2) for c in carat],
        "z": [round(4.0 * c ** (1 / 3), 2) for c in carat],
    }


def _player(draw: random.Random) -> str:
    return draw.choice("abcdefghij") + draw.choice(["arnese", "ondsba", "rowney", "ennedy"]) + f"{draw.randrange(1, 30):02d}"


def _batting(draw: random.Random) -> Columns:
    rows = range(4000)
    counts = [name for name, kind in TEST_TABLES["batting"].items() if kind.is_int64() and name not in ("yearID", "stint")]
    return {
        "playerID": [_player(draw) for _ in rows],
        "yearID": [draw.randrange(1871, 2016) for _ in rows],
        "stint": [draw.choice([1, 1, 1, 2]) for _ in rows],
        "teamID": [draw.choice(["BOS", "CHN", "NYA", "SLN", "DET"]) for _ in rows],
        "lgID": [draw.choice(["AL", "NL"]) for _ in rows],
        **{name: [draw.randrange(12 if name == "RBI" else 200) for _ in rows] for name in counts},
    }


def _awards_players(draw: random.Random) -> Columns:
    awards, leagues = ["Gold Glove", "MVP", "Triple Crown", "Rookie of the Year"], ["AL", "NL", "ML"]
    # Nobody gets an award twice in a year. Tests of joins expect seven years before 1900.
    years = [*range(1877, 1884), *range(1900, 2016)]
    keys = list(dict.fromkeys((_player(draw), draw.choice(awards), draw.choice(years), draw.choice(leagues)) for _ in range(1200)))
    return {
        **{name: list(values) for name, values in zip(["playerID", "awardID", "yearID", "lgID"], zip(*keys))},
        "tie": [draw.choice([None, None, None, "Y"]) for _ in keys],
        "notes": [draw.choice([None, "1B", "SS", "OF"]) for _ in keys],
    }


def _astronauts(draw: random.Random) -> Columns:
    rows = range(1, 601)
    kinds = {"int64": lambda: draw.randrange(1, 400), "float64": lambda: round(draw.uniform(0, 2000), 2)}
    texts = {"sex": ["male", "female"], "nationality": ["U.S.", "U.S.S.R/Russia", "Japan"], "military_civilian": ["military", "civilian"]}
    columns: Columns = {"id": list(rows)}
    for name, kind in list(TEST_TABLES["astronauts"].items())[1:]:
        make = kinds.get(str(kind), lambda name=name: draw.choice(texts.get(name, [f"{name} {n}" for n in range(9)])))
        columns[name] = [make() for _ in rows]
    # The tests know who flew most often.
    columns["name"] = [["Ross, Jerry L.", "Chang-Diaz, Franklin R."][i % 2] if i < 14 else f"name {i // 3}" for i, _ in enumerate(rows)]
    columns["year_of_birth"] = [draw.randrange(1921, 1984) for _ in rows]
    columns["year_of_mission"] = [draw.randrange(1961, 2020) for _ in rows]
    return columns


MAKERS = {
    "functional_alltypes": _functional_alltypes,
    "diamonds": _diamonds,
    "batting": _batting,
    "awards_players": _awards_players,
    "astronauts": _astronauts,
}

#: Small tables of nested types and JSON.
STATEMENTS = """
CREATE TABLE array_types (x BIGINT[], y TEXT[], z DOUBLE PRECISION[], grouper TEXT, scalar_column DOUBLE PRECISION, multi_dim BIGINT[][]);
INSERT INTO array_types VALUES
    ([1, 2, 3], ['a', 'b', 'c'], [1.0, 2.0, 3.0], 'a', 1.0, [[], [1, 2, 3], NULL]),
    ([4, 5], ['d', 'e'], [4.0, 5.0], 'a', 2.0, []),
    ([6, NULL], ['f', NULL], [6.0, NULL], 'a', 3.0, [NULL, [], NULL]),
    ([NULL, 1, NULL], [NULL, 'a', NULL], [], 'b', 4.0, [[1], [2], [], [3, 4, 5]]),
    ([2, NULL, 3], ['b', NULL, 'c'], NULL, 'b', 5.0, NULL),
    ([4, NULL, NULL, 5], ['d', NULL, NULL, 'e'], [4.0, NULL, NULL, 5.0], 'c', 6.0, [[1, 2, 3]]);
CREATE TABLE "struct" (abc STRUCT(a DOUBLE, b TEXT, c BIGINT));
INSERT INTO "struct" VALUES
    ({'a': 1.0, 'b': 'banana', 'c': 2}), ({'a': 2.0, 'b': 'apple', 'c': 3}), ({'a': 3.0, 'b': 'orange', 'c': 4}),
    ({'a': NULL, 'b': 'banana', 'c': 2}), ({'a': 2.0, 'b': NULL, 'c': 3}), (NULL), ({'a': 3.0, 'b': 'orange', 'c': NULL});
CREATE TABLE json_t (rowid BIGINT, js JSON);
INSERT INTO json_t VALUES
    (1, '{"a": [1,2,3,4], "b": 1}'), (2, '{"a":null,"b":2}'), (3, '{"a":"foo", "c":null}'), (4, 'null'), (5, '[42,47,55]'), (6, '[]'),
    (7, '"a"'), (8, '""'), (9, '"b"'), (10, NULL), (11, 'true'), (12, 'false'), (13, '42'), (14, '37.37');
CREATE TABLE win (g TEXT, x BIGINT NOT NULL, y BIGINT);
INSERT INTO win VALUES ('a', 0, 3), ('a', 1, 2), ('a', 2, 0), ('a', 3, 1), ('a', 4, 1);
CREATE TABLE "map" (idx BIGINT, kv MAP(VARCHAR, BIGINT));
INSERT INTO "map" VALUES (1, MAP(['a', 'b', 'c'], [1, 2, 3])), (2, MAP(['d', 'e', 'f'], [4, 5, 6]));
CREATE TABLE topk (x BIGINT);
INSERT INTO topk VALUES (1), (1), (NULL);
"""


def load(con: ibis.BaseBackend, folder: Path) -> None:
    """Loads all tables into a database."""
    for name in MAKERS:
        con.create_table(name, con.read_parquet(folder / "parquet" / f"{name}.parquet"), overwrite=True)
    con.raw_sql(STATEMENTS)
