"""Functions of Python in SQL: what they are given, what they give, and what becomes of their errors."""

import datetime
import decimal
import threading
import time
import uuid

import freestone
import pyarrow
import pyarrow.compute
import pytest


def add(a: int, b: int) -> int:
    return a + b


def test_a_function_is_called_for_each_row(here):
    here.create_function("add_one", lambda a: a + 1, ["BIGINT"], "BIGINT")
    assert here.sql("SELECT add_one(a) FROM range(3) t(a)").fetchall() == [(1,), (2,), (3,)]
    assert here.sql("SELECT ADD_ONE(1), add_one(a) FROM range(2) t(a) WHERE add_one(a) = 2").fetchall() == [(2, 2)]
    assert here.sql("SELECT sum(add_one(a)) FROM range(100000) t(a)").fetchone() == (5000050000,)


def test_types_are_those_of_the_annotations(here):
    here.create_function("plus2", add).create_function("hello", lambda: "hi", [], str)
    query = here.sql("SELECT plus2(1::TINYINT, 2), hello()")
    assert (query.types, query.fetchall()) == (["BIGINT", "VARCHAR"], [(3, "hi")])
    with pytest.raises(freestone.DataError, match=r"plus2 takes \(BIGINT, BIGINT\), and was given \(VARCHAR, INTEGER\)"):
        here.sql("SELECT plus2('a', 2::INTEGER)")
    with pytest.raises(freestone.DataError, match=r"plus2 takes \(BIGINT, BIGINT\), and was given \(BIGINT\)"):
        here.sql("SELECT plus2(2::BIGINT)")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("BIGINT", 2**40),
        ("DOUBLE", 1.5),
        ("BOOLEAN", True),
        ("VARCHAR", "ä\0"),
        ("BLOB", b"\0x"),
        ("DECIMAL(10,2)", decimal.Decimal("1.25")),
        ("DATE", datetime.date(2024, 2, 29)),
        ("TIME", datetime.time(1, 2, 3, 4)),
        ("TIMESTAMP", datetime.datetime(2024, 2, 29, 1, 2, 3, 4)),
        ("INTERVAL", datetime.timedelta(days=2, seconds=3)),
        ("UUID", uuid.UUID(int=7)),
        ("BIGINT[]", [1, None, 3]),
        ("STRUCT(a BIGINT, b VARCHAR)", {"a": 1, "b": "x"}),
        (pyarrow.int16(), 3),
        (pyarrow.list_(pyarrow.string()), ["a"]),
        (float, 2.5),
    ],
)
def test_values_of_every_type_come_and_go(here, written, value):
    seen = []
    here.create_function("same", lambda given: seen.append(given) or given, [written], written)
    here.create_function("make", lambda: value, [], written, side_effects=True)
    assert here.sql("SELECT same(make())").fetchall() == [(value,)]
    assert seen == [value]


def test_any_type_and_any_number_of_arguments(here):
    here.create_function("kinds", lambda *given: ",".join(type(one).__name__ for one in given), None, "VARCHAR")
    assert here.sql("SELECT kinds(1, 'a', 2.5::DOUBLE, DATE '2024-01-01'), kinds()").fetchone() == ("int,str,float,date", "")


def test_arrow_batches(here):
    lengths = []

    def doubled(values):
        lengths.append(len(values))
        return pyarrow.compute.multiply(values, 2)

    here.create_function("doubled", doubled, ["BIGINT"], "BIGINT", type="arrow")
    assert here.sql("SELECT sum(doubled(a)) FROM range(50000) t(a)").fetchone() == (50000 * 49999,)
    assert sum(lengths) == 50000 and len(lengths) < 50
    here.create_function("plain", lambda values: values.to_pandas() + 1, ["BIGINT"], "BIGINT", type="arrow")
    assert here.sql("SELECT plain(a) FROM range(2) t(a)").fetchall() == [(1,), (2,)]


def test_null_handling(here):
    rows = "FROM (VALUES (1), (NULL), (3)) t(a)"
    for kind, double in (("native", lambda a: a * 2), ("arrow", lambda a: pyarrow.compute.multiply(a, 2))):
        here.create_function(f"double_{kind}", double, ["INTEGER"], "INTEGER", type=kind)
        assert here.sql(f"SELECT double_{kind}(a) {rows}").fetchall() == [(2,), (None,), (6,)]
    here.create_function("known", lambda a: a is not None, ["INTEGER"], "BOOLEAN", null_handling="special")
    assert here.sql(f"SELECT known(a) {rows}").fetchall() == [(True,), (False,), (True,)]
    here.create_function("nothing", lambda a: None, ["INTEGER"], "VARCHAR")
    assert here.sql(f"SELECT nothing(a) {rows}").fetchall() == [(None,)] * 3


def test_an_exception_is_the_cause_of_an_error_that_names_the_function(here):
    def fails(a):
        raise ValueError("not today")

    here.create_function("fails", fails, ["BIGINT"], "BIGINT")
    here.sql("CREATE TABLE t AS SELECT 1::BIGINT AS a")
    for text in ("SELECT fails(a) FROM t", "INSERT INTO t SELECT fails(a) FROM t", "CREATE TABLE u AS SELECT fails(a) AS b FROM t",
                 "UPDATE t SET a = fails(a)", "SELECT fails(1)"):
        with pytest.raises(freestone.ProgrammingError, match="the function fails raised ValueError: not today") as raised:
            here.sql(text).fetchall()
        assert isinstance(raised.value.__cause__, ValueError)
    assert here.tables() == ["t"]
    assert here.sql("SELECT * FROM t").fetchall() == [(1,)]
    for kind in ("native", "arrow"):
        here.create_function(f"or_null_{kind}", fails, ["BIGINT"], "BIGINT", exception_handling="return_null", type=kind)
        assert here.sql(f"SELECT or_null_{kind}(a) FROM t").fetchall() == [(None,)]


def test_a_row_that_is_filtered_out_is_not_computed(here):
    here.create_function("inverse", lambda a: 1 / a, ["BIGINT"], "DOUBLE")
    here.sql("CREATE TABLE t AS SELECT a FROM range(1000) t(a)")
    assert here.sql("SELECT sum(inverse(a)) > 7 FROM t WHERE a > 0").fetchone() == (True,)
    assert here.sql("SELECT count(*) FROM t WHERE a > 0 AND inverse(a) > 0.5").fetchone() == (1,)
    assert here.sql("SELECT CASE WHEN a = 0 THEN 0 ELSE inverse(a) END AS b FROM t ORDER BY a LIMIT 2").fetchall() == [(0.0,), (1.0,)]


@pytest.mark.parametrize(
    ("kind", "wrong", "message"),
    [
        ("arrow", lambda a: a[:-1], "function wrong returned 2 values for 3 rows"),
        ("arrow", lambda a: pyarrow.array(["x"] * 3), "function wrong returned VARCHAR, not INTEGER"),
        ("arrow", lambda a: pyarrow.array([1.5] * 3), "function wrong returned DOUBLE, not INTEGER"),
        ("arrow", lambda a: pyarrow.array([2**40] * 3), "function wrong returned BIGINT, not INTEGER: .*1099511627776"),
        ("arrow", lambda a: None, "the function wrong returned values that are not of its type"),
        ("native", lambda a: "x", "the function wrong returned values that are not of its type"),
        ("native", lambda a: 2**40, "the function wrong returned values that are not of its type"),
    ],
)
def test_results_of_another_length_or_type(here, kind, wrong, message):
    here.create_function("wrong", wrong, ["BIGINT"], "INTEGER", type=kind)
    with pytest.raises(freestone.DataError, match=message):
        here.sql("SELECT wrong(a) FROM range(3) t(a)").fetchall()
    assert here.sql("SELECT 1").fetchall() == [(1,)]


def test_side_effects_are_neither_folded_nor_shared(here):
    calls = []
    here.create_function("counted", lambda a: calls.append(a) or len(calls), ["BIGINT"], "BIGINT", side_effects=True)
    here.sql("CREATE TABLE t AS SELECT a % 2 AS a FROM range(100) t(a)")
    assert here.sql("SELECT count(DISTINCT counted(a)) FROM t").fetchone() == (100,)
    assert len(calls) == 100
    assert here.sql("SELECT count(DISTINCT counted(1)) FROM t").fetchone() == (100,)
    query = here.sql("SELECT counted(1)")
    assert query.fetchall() != here.sql("SELECT counted(1)").fetchall()


def test_only_values_that_occur_are_computed(here):
    seen = set()
    here.create_function("seen", lambda a: seen.add(a) or a, ["BIGINT"], "BIGINT")
    here.sql("CREATE TABLE t AS SELECT CASE WHEN a % 2 = 0 THEN 0 ELSE 20 END AS a FROM range(1000) t(a)")
    assert here.sql("SELECT sum(seen(a)) FROM t").fetchone() == (10000,)
    assert seen == {0, 20}


@pytest.mark.parametrize("text", ["SELECT forever(a) FROM range(10) t(a)", "SELECT forever(1)", "SELECT forall(a) FROM range(10) t(a)"])
def test_a_function_that_never_ends_is_cancelled(here, text):
    begun = threading.Event()

    def forever(a):
        begun.set()
        while True:
            time.sleep(0.001)

    here.create_function("forever", forever, ["BIGINT"], "BIGINT")
    here.create_aggregate("forall", forever, ["BIGINT"], "BIGINT")
    canceller = threading.Thread(target=lambda: begun.wait() and here.cancel())
    canceller.start()
    with pytest.raises(freestone.CancelledError):
        here.sql(text).fetchall()
    canceller.join()
    assert here.sql("SELECT 1").fetchall() == [(1,)]


def test_a_function_cannot_use_the_connection_that_calls_it(here):
    here.create_function("nested", lambda a: here.sql("SELECT 1").fetchone()[0], ["BIGINT"], "BIGINT")
    with pytest.raises(freestone.ProgrammingError, match="nested raised InterfaceError: a function of SQL cannot run statements"):
        here.sql("SELECT nested(1)").fetchall()
    with freestone.connect() as other:
        here.create_function("other", lambda a: other.sql("SELECT $1 + 1", [a]).fetchone()[0], ["BIGINT"], "BIGINT")
        assert here.sql("SELECT other(1)").fetchall() == [(2,)]


def test_aggregates(here):
    def spread(values):
        return max(values) - min(values)

    here.create_aggregate("spread", spread, ["BIGINT"], "BIGINT")
    here.sql("CREATE TABLE t AS SELECT a % 3 AS g, a, CASE WHEN a % 2 = 0 THEN a END AS b FROM range(100000) t(a)")
    assert here.sql("SELECT spread(a) FROM t").fetchone() == (99999,)
    assert here.sql("SELECT g, spread(a), count(*) FROM t GROUP BY g ORDER BY g").fetchall() == [
        (0, 99999, 33334), (1, 99996, 33333), (2, 99996, 33333)
    ]
    assert here.sql("SELECT spread(b), spread(a) FILTER (WHERE a < 5), spread(DISTINCT a % 5) FROM t").fetchone() == (99998, 4, 4)
    assert here.sql("SELECT spread(a) FROM t WHERE false").fetchall() == [(None,)]
    assert here.sql("SELECT spread(a) OVER (PARTITION BY g) FROM (SELECT * FROM t WHERE a < 7)").fetchall() == [(6,)] * 3 + [(3,)] * 4


def test_aggregates_of_arrays_in_an_order(here):
    def joined(texts, mark):
        return pyarrow.scalar(mark[0].as_py().join(texts.to_pylist())) if len(texts) else "none"

    here.create_aggregate("joined", joined, [str, str], str, type="arrow", null_handling="special")
    rows = "FROM (VALUES ('b'), ('a'), ('c')) t(a)"
    assert here.sql(f"SELECT joined(a, '+' ORDER BY a DESC), joined(DISTINCT a, '') {rows} WHERE a < 'c'").fetchone()[0] == "b+a"
    assert here.sql(f"SELECT joined(a, '+') {rows} WHERE false").fetchall() == [("none",)]
    with pytest.raises(freestone.ProgrammingError, match="the aggregate none has no parameters"):
        here.create_aggregate("none", lambda: 1, [], int)


def test_names(here):
    here.create_function("f", add)
    with pytest.raises(freestone.ProgrammingError, match="the function f exists"):
        here.create_aggregate("F", add)
    for taken in ("abs", "sum", "row_number", "ceiling", "list_transform", "struct_pack", ""):
        with pytest.raises(freestone.ProgrammingError):
            here.create_function(taken, add)
    here.remove_function("f")
    with pytest.raises(freestone.ProgrammingError, match="no function f"):
        here.sql("SELECT f(1, 2)")
    for name in ("f", "abs"):
        with pytest.raises(freestone.ProgrammingError, match=f"no function {name} was created here"):
            here.remove_function(name)
    here.create_function("f", lambda a, b: a * b, [int, int], int)
    assert here.sql("SELECT f(3, 4)").fetchall() == [(12,)]


def test_cursors_have_the_functions_of_their_connection(here):
    here.create_function("f", add)
    with here.cursor() as cursor:
        assert cursor.sql("SELECT f(1, 2)").fetchall() == [(3,)]
        cursor.remove_function("f")
    assert here.sql("SELECT f(1, 2)").fetchall() == [(3,)]
    with freestone.connect() as other, pytest.raises(freestone.ProgrammingError, match="no function f"):
        other.sql("SELECT f(1, 2)")


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((1,), {}, "takes a function"),
        ((lambda a: a,), {}, "needs the type of its result"),
        ((lambda a: a, ["BIGINT"], "NO_TYPE"), {}, "(?i)no_type"),
        ((lambda a: a, ["BIGINT) AS a, (1"], "BIGINT"), {}, "closes a"),
        ((lambda a: a, "BIGINT", "BIGINT"), {}, "parameters are a list"),
        ((lambda a: a, [set], "BIGINT"), {}, "is no type of SQL"),
        ((lambda a: a, ["BIGINT"], "INET"), {}, "a function cannot return ENUM"),
        ((lambda a: a, ["BIGINT"], "BIGINT"), {"type": "vector"}, "type='vector' is none of native, arrow"),
        ((lambda a: a, ["BIGINT"], "BIGINT"), {"null_handling": "x"}, "null_handling"),
    ],
)
def test_wrong_definitions(here, arguments, options, message):
    with pytest.raises(freestone.Error, match=message):
        here.create_function("f", *arguments, **options)
    with pytest.raises(freestone.ProgrammingError, match="no function f"):
        here.sql("SELECT f(1)")


def test_functions_are_not_for_servers(shared_server):
    with freestone.connect(shared_server) as db, pytest.raises(freestone.NotSupportedError, match="run in this process"):
        db.create_function("f", add)
