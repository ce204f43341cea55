"""Nested values and UUIDs: loaded from frames and files, stored, and returned as Python values, frames and Arrow."""

import json
import uuid

import freestone
import pyarrow as pa
import pytest

ROWS = [
    (1, [1, 2, None], {"a": 1, "b": "x", "t": {"l": ["p", None]}}, {"k": 1, "j": None}),
    (2, [], {"a": None, "b": "y", "t": None}, {}),
    (3, None, None, None),
]


@pytest.fixture
def db():
    """A database with a table of nested columns."""
    with freestone.connect() as connection:
        connection.sql("CREATE TABLE t (i INT, l INT[], s STRUCT(a INT, b VARCHAR, t STRUCT(l VARCHAR[])), m MAP(VARCHAR, INT))")
        connection.sql(
            "INSERT INTO t VALUES (1, [1, 2, NULL], {'a': 1, 'b': 'x', 't': {'l': ['p', NULL]}}, MAP {'k': 1, 'j': NULL}), "
            "(2, [], {'a': NULL, 'b': 'y', 't': NULL}, MAP {}), (3, NULL, NULL, NULL)"
        )
        yield connection


def test_values_are_lists_and_dicts(db):
    """Rows have Python's values at every level."""
    assert db.sql("SELECT * FROM t ORDER BY i").fetchall() == ROWS


def test_maps_of_keys_without_a_hash_are_two_lists(db):
    """A list is no key of a dictionary, so the keys and the values stand next to each other, as in DuckDB."""
    rows = db.sql("SELECT MAP {[1, 2]: 'a', [3]: NULL}, MAP {{'x': 1}: 2}, MAP {'k': [1]}").fetchall()
    assert rows == [({"key": [[1, 2], [3]], "value": ["a", None]}, {"key": [{"x": 1}], "value": [2]}, {"k": [1]})]


def test_the_end_of_a_day_is_text(db):
    """Python's time ends before 24:00:00."""
    assert db.sql("SELECT TIME '24:00:00', TIME '23:59:59.999999'").fetchone()[0] == "24:00:00"


def test_fields_are_columns(db):
    """A field of a struct is read by its name."""
    assert db.sql("SELECT s.a, s.t.l FROM t AS x WHERE s.b = 'x'").fetchall() == [(1, ["p", None])]


def test_arrow_has_nested_types(db):
    """Arrow keeps lists, structs and maps."""
    table = db.sql("SELECT * FROM t ORDER BY i").arrow()
    assert [row.as_py() for row in table.column("l")] == [row[1] for row in ROWS]
    assert table.column("s").to_pylist() == [row[2] for row in ROWS]
    assert pa.types.is_map(table.schema.field("m").type)


def test_frames_have_nested_values(db):
    """pandas and Polars show lists and dicts."""
    frame = db.sql("SELECT i, s FROM t ORDER BY i").df()
    assert frame["s"][0]["a"] == 1
    assert db.sql("SELECT l FROM t ORDER BY i").pl()["l"].to_list() == [row[1] for row in ROWS]


def test_tables_of_arrow_are_loaded(db):
    """A load keeps nested types, and gives the same rows back."""
    db.load("u", db.sql("SELECT * FROM t").arrow())
    assert db.sql("SELECT count(*) FROM (FROM u EXCEPT FROM t)").fetchall() == [(0,)]
    assert db.sql("SELECT i FROM u WHERE s.a = 1").fetchall() == [(1,)]


def test_frames_with_lists_are_loaded(db):
    """pandas and Polars frames with lists and structs become tables."""
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"k": [1, 2], "l": [[1], None], "s": [{"a": 1}, {"a": None}]})
    db.load("p", frame)
    assert db.sql("SELECT k, l, s FROM p ORDER BY k").fetchall() == [(1, [1], {"a": 1}), (2, None, {"a": None})]


def test_files_of_json_are_loaded(db, tmp_path):
    """Arrays and objects of JSON are lists and structs."""
    file = tmp_path / "x.json"
    file.write_text("\n".join(json.dumps({"i": i, "s": {"a": i, "l": [{"b": i}] * (i % 3)}}) for i in range(100)))
    db.load("x", str(file))
    assert db.sql("SELECT sum(s.a), max(s.l[1].b) FROM x").fetchall() == [(4950, 98)]


def test_uuids_are_uuids(db):
    """A UUID column takes and returns uuid.UUID."""
    one, other = uuid.UUID(int=1), uuid.uuid4()
    db.sql("CREATE TABLE u (u UUID PRIMARY KEY, i INT)")
    db.sql("INSERT INTO u VALUES ($1, 1), ($2, 2)", [one, other])
    assert db.sql("SELECT u FROM u ORDER BY i").fetchall() == [(one,), (other,)]
    assert db.sql("SELECT i FROM u WHERE u = $1", [other]).fetchall() == [(2,)]
    with pytest.raises(freestone.Error):
        db.sql("INSERT INTO u VALUES ($1, 3)", [one])


def test_parameters_are_nested(db):
    """Lists and dicts are values of nested columns."""
    db.sql("INSERT INTO t (i, l, s) VALUES (9, $1, $2)", [[7, 8], {"a": 9, "b": "z"}])
    assert db.sql("SELECT l, s FROM t WHERE i = 9").fetchall() == [([7, 8], {"a": 9, "b": "z", "t": None})]
    assert db.sql("SELECT i FROM t WHERE l = $1", [[7, 8]]).fetchall() == [(9,)]
