"""Forms of Arrow's columns, and its extension types: each is read as what it means, or is an error that names the column."""

import uuid

import freestone
import pandas
import polars
import pyarrow
import pytest


def column(values):
    return pyarrow.table([values], names=["a"])


def runs():
    return pyarrow.RunEndEncodedArray.from_arrays(pyarrow.array([2, 5], pyarrow.int32()), pyarrow.array(["x", None]))


def test_run_ends(db):
    table = column(runs())
    query = db.from_arrow(table)
    assert (query.types, query.fetchall()) == (["VARCHAR"], [("x",)] * 2 + [(None,)] * 3)
    assert db.sql("SELECT a, count(*) FROM \"table\" GROUP BY a ORDER BY a").fetchall() == [("x", 2), (None, 3)]
    nested = column(pyarrow.StructArray.from_arrays([runs()], names=["r"]))
    assert db.from_arrow(nested).fetchall() == [({"r": "x"},)] * 2 + [({"r": None},)] * 3
    assert db.load("kept", table.slice(1, 2)) == 2
    assert db.table("kept").fetchall() == [("x",), (None,)]


@pytest.mark.parametrize("kind", [pyarrow.list_view, pyarrow.large_list_view])
def test_list_views(db, kind):
    rows = [[1, None], None, [], [3]]
    table = column(pyarrow.array(rows, kind(pyarrow.int64())))
    assert db.from_arrow(table).fetchall() == [(row,) for row in rows]
    assert db.from_arrow(table.to_reader()).fetchall() == [(row,) for row in rows]
    assert db.sql("SELECT sum(b) FROM (SELECT unnest(a) AS b FROM \"table\")").fetchone() == (4,)


def test_a_dictionary_whose_values_hold_null(db):
    for values, null, other in (([None, "x"], None, "x"), ([None, 7], None, 7)):
        codes = pyarrow.array([0, 1, None, 0], pyarrow.int8())
        given = column(pyarrow.DictionaryArray.from_arrays(codes, pyarrow.array(values)))
        assert db.from_arrow(given).fetchall() == [(null,), (other,), (null,), (null,)]
        assert db.sql("SELECT count(*), count(a), max(a) FROM given").fetchall() == [(4, 1, other)]
        assert db.sql("SELECT count(*) FROM given WHERE a IS NULL").fetchall() == [(3,)]
        assert db.sql("SELECT a, count(*) FROM given GROUP BY a ORDER BY a").fetchall() == [(other, 1), (null, 3)]
        assert db.load("kept", given) == 4
        assert db.sql("SELECT count(a) FROM kept").fetchall() == [(1,)]
        db.sql("DROP TABLE kept")
    categories = polars.DataFrame({"a": ["x", None]}, schema={"a": polars.Categorical})
    for frame in (pandas.DataFrame({"a": pandas.Categorical(["x", None])}), categories):
        assert db.from_df(frame).fetchall() == [("x",), (None,)]


def test_extension_types_are_what_they_mean(db):
    def extended(kind, values):
        return column(pyarrow.ExtensionArray.from_storage(kind, values))

    one = uuid.UUID(int=7)
    query = db.from_arrow(extended(pyarrow.uuid(), pyarrow.array([one.bytes, None], pyarrow.binary(16))))
    assert (query.types, query.fetchall()) == (["UUID"], [(one,), (None,)])
    query = db.from_arrow(extended(pyarrow.bool8(), pyarrow.array([1, 0, None], pyarrow.int8())))
    assert (query.types, query.fetchall()) == (["BOOLEAN"], [(True,), (False,), (None,)])
    query = db.from_arrow(extended(pyarrow.json_(), pyarrow.array(['{"b": [1, 2]}', None])))
    assert query.project("a->'b'->1 AS b").fetchall() == [("2",), (None,)]


@pytest.mark.parametrize(
    ("values", "what"),
    [
        (lambda: pyarrow.array(pandas.period_range("2020-01", periods=2, freq="M")), "periods"),
        (lambda: pyarrow.array(pandas.arrays.IntervalArray.from_breaks([0, 1, 2])), "intervals between two values"),
        (lambda: pyarrow.UnionArray.from_sparse(pyarrow.array([0], pyarrow.int8()), [pyarrow.array([1])]), "unions"),
    ],
)
def test_other_extension_types_are_errors_that_name_the_column(db, values, what):
    table = column(values())
    with pytest.raises(freestone.DataError, match=f'column "a": SQL has no type for {what}'):
        db.sql('SELECT * FROM "table"')
    nested = column(pyarrow.StructArray.from_arrays([values()], names=["inner"]))
    assert nested.num_columns == 1
    with pytest.raises(freestone.DataError, match=f'column "inner": SQL has no type for {what}'):
        db.load("kept", nested)
    assert (table.num_columns, db.tables()) == (1, [])
