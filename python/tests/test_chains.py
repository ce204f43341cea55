"""Relations made from relations. Where DuckDB has the same method, the same chain gives the same names and rows there."""

import datetime
import random
from decimal import Decimal

import duckdb
import freestone
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

TABLES = """
    create table t as select value as a, value % 3 as b, 's' || (value % 4) as s from generate_series(0, 19) as g(value);
    create table u as select value * 2 as a, value % 5 as c from generate_series(0, 9) as g(value);
    create table "odd ""ones"" too" as select 1 as "select", 2 as "x y", 3 as "it""s", 4 as "Upper";
"""

# Chains, each of which has a row per line of its result; those with an order are compared in it.
CHAINS = [
    lambda db: db.table("t"),
    lambda db: db.table("t").filter("a > 3").filter("b = 1 or b = 2"),
    lambda db: db.table("t").filter("s = 's1'  -- of four"),
    lambda db: db.table("t").project("a, b + 1 as c"),
    lambda db: db.table("t").project("s").distinct(),
    lambda db: db.table("t").select("a", "s").filter("a < 4"),
    lambda db: db.table("t").aggregate("sum(a) as x, count(*) as n"),
    lambda db: db.table("t").aggregate("b, sum(a) as x"),
    lambda db: db.table("t").aggregate("b, sum(a) as x", "b").filter("x > 50"),
    lambda db: db.table("t").filter("a < 0").aggregate("count(*) as n"),
    lambda db: db.table("t").order("b desc, a"),
    lambda db: db.table("t").order("b desc, a").limit(4, offset=1),
    lambda db: db.table("t").order("b desc, a").filter("a > 5").project("a").limit(3),
    lambda db: db.table("t").sort("s", "a desc").limit(7),
    lambda db: db.table("t").order("a").distinct(),
    lambda db: db.table("t").unique("b"),
    lambda db: db.table("t").project("b").union(db.table("u").project("c")),
    lambda db: db.table("t").project("b").except_(db.table("u").project("c").limit(3)).aggregate("count(*) as n"),
    lambda db: db.table("t").project("b").intersect(db.table("u").project("c")),
    lambda db: db.table("t").join(db.table("u"), "a"),
    lambda db: db.table("t").join(db.table("u"), "a", how="left"),
    lambda db: db.table("t").join(db.table("u"), "a", how="right"),
    lambda db: db.table("t").join(db.table("u"), "a", how="outer"),
    lambda db: db.table("t").join(db.table("u"), "a", how="semi"),
    lambda db: db.table("t").join(db.table("u"), "a", how="anti"),
    lambda db: db.table("t").join(db.table("u"), "t.b = u.c and t.a < u.a"),
    lambda db: db.table("t").join(db.table("t").set_alias("v"), "a, b"),
    lambda db: db.table("t").join(db.table("u"), "t.a = u.a").project("t.a as x, u.c").filter("x > 4"),
    lambda db: db.table("t").join(db.table("u"), "t.a = u.a").filter("t.a > 3").project("t.a as x, u.c"),
    lambda db: db.table("t").join(db.table("u"), "t.a = u.a").aggregate("u.c, sum(t.b) as n"),
    lambda db: db.table("t").cross(db.table("u")).aggregate("count(*) as n"),
    lambda db: db.table("t").set_alias("X").filter("X.a < 3"),
    lambda db: db.table("t").filter("t.a < 3").project("t.a as x"),
    lambda db: db.table("t").query("v", "select max(a) as m, b from v group by b order by b"),
    lambda db: db.table("t").query("t", "with w as (select a from t) select count(*) as n from w"),
    lambda db: db.table("t").sum("a", projected_columns="b", groups="b"),
    lambda db: db.table("t").sum("a"),
    lambda db: db.table("t").count("a"),
    lambda db: db.table("t").max("s"),
    lambda db: db.table("t").min("a", groups="b"),
    lambda db: db.table("t").avg("a"),
    lambda db: db.table("t").mean("a"),
    lambda db: db.table("t").median("a"),
    lambda db: db.table("t").stddev_samp("a"),
    lambda db: db.table("t").var_pop("a"),
    lambda db: db.table("t").project("a < 5 as f").bool_and("f"),
    lambda db: db.table("t").bit_or("a"),
    lambda db: db.table("t").product("b"),
    lambda db: db.table("t").list("a"),
    lambda db: db.table("t").arg_max("s", "a"),
    lambda db: db.table("t").order("a").string_agg("s", sep="-"),
    lambda db: db.table("t").value_counts("s"),
    lambda db: db.table("t").sum("a", window_spec="over (partition by b)", projected_columns="a, b"),
    lambda db: db.table("t").describe(),
    lambda db: db.sql("select date '2024-02-29' as d, true as y, 1.25::decimal(5, 2) as m union all select null, null, null").describe(),
    lambda db: db.table('"odd ""ones"" too"').filter('"x y" = 2').project('"select", "it""s"'),
    lambda db: db.sql("values (1, 'a'), (2, 'b')").filter("true").aggregate("count(*) as n"),
    lambda db: db.sql("from t").limit(0),
    lambda db: db.sql("(select 1 as a) union all (select 2 as a order by 1)").filter("a > 1"),
    lambda db: db.sql("select a from t order by a desc limit 3").filter("a > 17"),
    lambda db: db.values([1, "a", None]),
    lambda db: db.values((1, "a"), (2, "b")),
    lambda db: db.from_df(pd.DataFrame({"n": [1, 2], "s": ["x", None]})).filter("n = 2"),
    lambda db: db.from_arrow(pa.table({"n": [1, 2]})).sum("n"),
    lambda db: db.execute("select 42 as answer"),
]


def plain(value):
    """A value as numbers that both give: sums are Decimal or int."""
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    return round(value, 9) if isinstance(value, float) else value


def rows(relation):
    return [tuple(plain(value) for value in row) for row in relation.fetchall()]


@pytest.fixture(scope="module")
def oracle():
    with duckdb.connect() as connection:
        connection.execute(TABLES)
        yield connection


@pytest.fixture
def tables(here):
    here.sql(TABLES)
    return here


def columns(relation):
    described = relation.description
    return [column[0].strip('"') for column in described]


@pytest.mark.parametrize("number", range(len(CHAINS)))
def test_chains_are_those_of_duckdb(tables, oracle, number):
    chain = CHAINS[number]
    ours, theirs = chain(tables), chain(oracle)
    assert columns(ours) == columns(theirs)
    found, expected = rows(ours), rows(theirs)
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def random_step(choose, db, relation, number):
    """The relation with one more step. All columns are integers, and their names begin with c."""
    columns = relation.columns
    one, other = choose.choice(columns), choose.choice(columns)
    every = ", ".join(columns)
    kind = choose.randrange(9)
    if kind == 0:
        return relation.filter(f"{one} % 3 <> {choose.randrange(3)} or {other} is null")
    if kind == 1:
        kept = choose.sample(columns, choose.randint(1, len(columns)))
        return relation.project(", ".join([*kept, f"{one} + {choose.randrange(9)} as c{number}n"]))
    if kind == 2:
        return relation.order(f"{every}, 1 desc").limit(choose.randint(1, 30), choose.randrange(3))
    if kind == 3:
        return relation.distinct()
    if kind == 4:
        return relation.aggregate(f"{one} as c{number}g, count(*) as c{number}n, max({other}) as c{number}m", one)
    if kind == 5:
        return relation.union(relation.filter(f"{one} > {choose.randrange(5)}"))
    if kind == 6:
        return relation.except_(relation.filter(f"{one} = {choose.randrange(5)}"))
    if kind == 7:
        return relation.intersect(relation.filter(f"{one} < {choose.randrange(9)}"))
    right = db.table("u").project(f"a as {one}, c as c{number}r").set_alias(f"side{number}")
    how = choose.choice(["inner", "left", "semi", "anti"])
    pairs = relation.set_alias(f"rest{number}").join(right, one, how=how)
    # DuckDB leaves the common column in its place, and SQL has it first.
    return pairs.project(", ".join(sorted(pairs.columns)))


@pytest.mark.parametrize("seed", range(36))
def test_random_chains_are_those_of_duckdb(tables, oracle, seed):
    results = []
    for db in (tables, oracle):
        choose = random.Random(seed)
        relation = db.table("t").project("a as ca, b as cb")
        for number in range(choose.randint(2, 7)):
            relation = random_step(choose, db, relation, number)
        results.append((columns(relation), sorted(rows(relation), key=repr)))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "chain",
    [
        lambda db: db.table("t").order("b desc, a"),
        lambda db: db.table("t").order("b desc, a").limit(4, offset=1),
        lambda db: db.table("t").order("b desc, a").filter("a > 5").project("a").limit(3),
        lambda db: db.table("t").sort("s", "a desc").project("a, s"),
        lambda db: db.table("t").query("v", "select a from v order by -a"),
    ],
)
def test_chains_keep_the_order_of_duckdb(tables, oracle, chain):
    assert rows(chain(tables)) == rows(chain(oracle))


def frames(frame):
    return frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)


def over(db, frame):
    """A relation over a variable that no one else has."""
    return db.sql("select * from frame")


def test_relations_keep_their_frames_alive(db):
    one, two = pd.DataFrame({"n": [1, 2]}), pl.DataFrame({"n": [7]})
    both = over(db, one).union(over(db, two)).order("n")
    del one, two
    assert both.fetchall() == [(1,), (2,), (7,)] == both.filter("n > 0").fetchall()
    left = over(db, pa.table({"n": [1, 2], "x": [5, 6]}))
    assert left.join(over(db, pa.table({"n": [2], "y": [8]})), "n").fetchall() == [(2, 6, 8)]
    more = pa.table({"n": [2]})  # noqa: F841 - a statement reads it by its name
    assert left.query("v", "select x from v join more using (n);").fetchall() == [(6,)]


def test_parameters_stay_with_their_relation(db):
    db.sql("create table t as select value as a from generate_series(0, 9) as g(value)")
    low = db.sql("select a from t where a > $low", {"low": 6})
    assert low.filter("a > 7").order("a").fetchall() == [(8,), (9,)]
    assert low.union(db.sql("select a from t where a < $high", {"high": 1})).order("a").fetchall() == [(0,), (7,), (8,), (9,)]
    assert low.intersect(low).count().fetchall() == [(3,)]
    marks, numbers = db.sql("select a, '?' as s from t where a < ?", [2]), db.sql("select a, '$1' as s from t where a > $1", [7])
    assert marks.union(marks).count().fetchall() == [(4,)]
    assert numbers.union(db.sql("select a, $2 from t where a < $1", [2, "$2"])).order("a").fetchall() == [
        (0, "$2"), (1, "$2"), (8, "$1"), (9, "$1"),
    ]  # fmt: skip
    assert low.join(db.table("t").set_alias("other"), "a").count().fetchall() == [(3,)]
    with pytest.raises(freestone.ProgrammingError, match="both relations have a parameter \\$low"):
        low.union(db.sql("select a from t where a > $low", {"low": 7}))
    with pytest.raises(freestone.ProgrammingError, match="only those of one have names"):
        low.union(marks.project("a"))
    low.create("kept")
    assert db.table("kept").shape == (3, 1)


def test_statements_with_rows_are_relations(db):
    db.sql("create table t (a int, b varchar)")
    assert db.sql("describe t").filter("column_type = 'VARCHAR'").project("column_name").fetchall() == [("b",)]
    assert db.sql("insert into t values (1, 'x') returning a").project("a + 1").fetchall() == [(2,)]
    assert db.table("t").shape == (1, 2)
    with pytest.raises(freestone.InterfaceError, match="CREATE TABLE returns no rows for filter"):
        db.sql("create table other (a int)").filter("a")


def test_tables_and_views_of_relations(db):
    relation = db.sql("select value as a, value % 2 as b from generate_series(1, 4) as g(value)")
    assert relation.create("t") is None and db.table("t").shape == (4, 2)
    relation.to_table("sorted", preset="row", sort="b")
    assert db.design("sorted")["sort"] == "b"
    relation.limit(1).insert_into("t")
    assert db.table("t").count().fetchall() == [(5,)]
    assert relation.create_view("v").alias == relation.alias and db.view("v").count().fetchall() == [(4,)]
    relation.limit(1).create_view("v")
    assert db.view("v").count().fetchall() == [(1,)]
    with pytest.raises(freestone.ProgrammingError, match="v exists"):
        relation.create_view("v", replace=False)
    for table in ["my table", '"a.b"', "Case", "select", '"it""s"']:
        relation.create(table)
        assert db.table(table).filter("a = 1").shape == (1, 2)
    with pytest.raises(freestone.NotSupportedError, match="would need frame"):
        over(db, pd.DataFrame({"a": [1]})).create_view("w")
    with pytest.raises(freestone.NotSupportedError, match="would need its parameters"):
        db.sql("select $1 as a", [1]).create_view("w")


@pytest.mark.parametrize("name", ["", " ", "a.b.c.d", 'a"b', '"', "a..b", ".", 3, None])
def test_names_that_are_none(here, name):
    with pytest.raises((freestone.ProgrammingError, freestone.InterfaceError), match="the name of a table or view"):
        here.table(name)
    with pytest.raises((freestone.ProgrammingError, freestone.InterfaceError), match="the name of a table or view"):
        here.sql("select 1 as a").create(name)


def test_files_of_relations(db, tmp_path):
    relation = db.sql("select 1 as a, 'x' as b union all select 2, null order by 1")
    path = tmp_path / "it's.csv"
    assert relation.write_csv(path) == 2 and path.read_text() == "a,b\n1,x\n2,\n"
    assert relation.to_csv(path, sep="|", header=False, na_rep="-") == 2 and path.read_text() == "1|x\n2|-\n"
    assert relation.write_parquet(tmp_path / "t.parquet") == 2 and pq.read_table(tmp_path / "t.parquet").num_rows == 2
    names = {"column1": "a", "column2": "b"}
    assert db.read_csv(path, sep="|", header=False, na_values="-").fetchall() == [(1, "x"), (2, None)]
    assert db.read_csv([path, path], columns={"n": "INT", "s": "VARCHAR"}, sep="|", header=False).count().fetchall() == [(4,)]
    assert db.read_parquet(tmp_path / "t.parquet").columns == list(names.values())
    (tmp_path / "t.json").write_text('{"a": 1}\n')
    assert db.read_json(tmp_path / "t.json").fetchall() == [(1,)]
    with pytest.raises(freestone.ProgrammingError, match="unknown option wrong"):
        db.read_csv(path, wrong=1)
    with pytest.raises(freestone.ProgrammingError, match="not the name of an option"):
        db.read_csv(path, **{"header = true) --": 1})
    assert db.read_csv(path, sep="|", header=False, skip=1).fetchall() == [(2, "-")]
    with pytest.raises(freestone.ProgrammingError, match="no such file"):
        db.read_csv(tmp_path / "none.csv")
    with pytest.raises(freestone.InterfaceError, match="not a value of type int"):
        db.read_csv(3)
    with pytest.raises(freestone.InterfaceError, match="not to a value of type int"):
        relation.write_csv(3)


def test_registered_frames_are_tables(db):
    for frame in frames(pd.DataFrame({"n": [1, 2]})):
        assert db.register("Frame1", frame) is db
        assert db.sql("select sum(n)::int from frame1").fetchall() == [(3,)]
        assert db.table("Frame1").filter("n > 1").fetchall() == [(2,)]
        assert db.unregister("frame1") is db
    with pytest.raises(freestone.ProgrammingError, match="no table or view frame1"):
        db.sql("from frame1")
    db.sql("create table t (a int)")
    db.sql("create temp view v as select 1 as a")
    for name in ["t", "T", "v"]:
        with pytest.raises(freestone.ProgrammingError, match=f"has a (table|view) {name}"):
            db.register(name, pa.table({"n": [1]}))
    with pytest.raises(freestone.ProgrammingError, match=r"register\('x', …\): a value of type int is no table"):
        db.register("x", 3)
    assert db.unregister("never") is db


def test_a_connection_keeps_its_last_result(db):
    with pytest.raises(freestone.InterfaceError, match="no rows to fetch"):
        db.fetchall()
    assert db.execute("select 42 as a union all select 43 order by 1").fetchdf()["a"].tolist() == [42, 43]
    assert (db.fetchone(), db.fetchmany(5), db.fetchall()) == ((42,), [(43,)], [])
    assert db.description == [("a", "BIGINT", None, None, None, None, None)]
    assert db.fetchdf().shape == db.pl().shape == db.arrow().shape == (2, 1) and db.fetchnumpy()["a"].tolist() == [42, 43]
    db.execute("create table t as select 1 as a")
    assert (db.rowcount, db.description) == (1, None)
    assert db.query("from t").fetch_arrow_table().num_rows == len(db.table("t").to_df()) == 1


def test_transactions_of_a_connection(db):
    db.sql("create table t (a int)")
    db.begin().execute("insert into t values (1)")
    assert db.rollback().table("t").shape == (0, 1)
    db.begin().execute("insert into t values (1)")
    assert db.commit().commit().rollback().table("t").shape == (1, 1)
    with pytest.raises(freestone.ProgrammingError, match="is no isolation level"), db.transaction("READ COMMITTED; DROP TABLE t"):
        pass
    assert db.table("t").shape == (1, 1)


def test_numpy_has_masks_for_null(db):
    arrays = db.sql(
        "select 1 as i, 'x' as s, 1.5::double as d, date '2024-02-29' as day, true as b union all select null, null, null, null, null"
    ).fetchnumpy()
    assert [array.mask.tolist() for array in arrays.values()] == [[False, True]] * 5
    assert [array.dtype.kind for array in arrays.values()] == ["i", "O", "f", "M", "b"]
    assert [array.dtype.kind for array in db.sql("select 1 as i, 'x' as s").fetchnumpy().values()] == ["i", "O"]


def test_relations_show_what_they_are(db):
    nothing = db.sql("select null as n, '' as e, 'NULL' as t, '<b>' as h")
    page = nothing._repr_html_()
    assert '<i style="opacity: 0.5">NULL</i></td>' in page and "></td>" in page and ">NULL</td>" in page and "&lt;b&gt;" in page
    assert nothing.execute().fetchone() == (None, "", "NULL", "<b>")
    wide = db.sql("select " + ", ".join(f"{n} as c{n}" for n in range(100)))
    assert repr(wide).endswith("1 row, the first 60 of 100 columns") and wide._repr_html_().count("<th") == 61
    assert len(db.sql("select repeat('x', 100000) as s")._repr_html_()) < 2000
    page = db.sql('select 1 as "<script>"')._repr_html_()
    assert "<script>" not in page and "&lt;script&gt;" in page


WRONG = [
    (lambda t: t.filter(3), "filter.* not a value of type int"),
    (lambda t: t.filter(""), "the text is empty"),
    (lambda t: t.filter("a > 1) or (true"), "closes a \\)"),
    (lambda t: t.filter("a = 'x"), "does not end what '"),
    (lambda t: t.filter("(a > 1"), "does not close"),
    (lambda t: t.filter("a > 1; drop table t"), "more than one statement"),
    (lambda t: t.filter("missing > 1"), "no column missing"),
    (lambda t: t.filter("a > ?"), "1 parameters"),
    (lambda t: t.project(), "takes columns"),
    (lambda t: t.order(None), "not None"),
    (lambda t: t.limit(-1), "not -1"),
    (lambda t: t.limit("a"), "not a value of type str"),
    (lambda t: t.limit(True), "not True"),
    (lambda t: t.union(pa.table({"a": [1]})), "takes a relation, not a value of type pyarrow.lib.Table"),
    (lambda t: t.union(t.project("a")), "columns"),
    (lambda t: t.join(3, "a"), "takes a relation, not a value of type int"),
    (lambda t: t.join(t, "t.a = t.b"), "both sides of the join have the alias t"),
    (lambda t: t.join(t.set_alias("u")), "takes a condition"),
    (lambda t: t.join(t.set_alias("u"), "a", how="sideways"), "'sideways' is no join"),
    (lambda t: t.join(t.set_alias("u"), "missing"), "missing"),
    (lambda t: t.cross(t.set_alias("u")).project("a"), "several tables"),
    (lambda t: t.set_alias(""), "an empty text"),
    (lambda t: t.create("t"), "t exists"),
    (lambda t: t.create("x", prese="row"), "unknown design option prese"),
    (lambda t: t.insert_into("missing"), "no table missing"),
    (lambda t: t.query("v", "insert into t select * from v"), "takes a query"),
    (lambda t: t.quantile_cont("a", "x"), "from 0 to 1"),
    (lambda t: t.union(freestone.sql("select 1, 2")), "different connections"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_use_names_what_is_wrong(here, number):
    here.sql("create table t as select 1 as a, 2 as b")
    call, message = WRONG[number]
    with pytest.raises((freestone.ProgrammingError, freestone.InterfaceError), match=message):
        call(here.table("t"))


def test_relations_without_their_table_or_connection(db):
    db.sql("create table t as select 1 as a")
    relation = db.table("t").filter("a > 0")
    db.sql("drop table t")
    for use in [relation.fetchall, relation.df, relation.count]:
        with pytest.raises(freestone.ProgrammingError, match="no table or view t"):
            use()
    assert repr(relation).endswith("without rows: no table or view t>")
    db.close()
    for use in [relation.fetchall, relation.count, lambda: db.from_df(pd.DataFrame({"a": [1]})), lambda: db.table("t"), db.begin]:
        with pytest.raises(freestone.InterfaceError, match="the connection is closed"):
            use()
    assert "the connection is closed" in repr(relation)


def test_values_of_python_are_rows(db):
    day = datetime.date(2024, 2, 29)
    assert db.values((1, day), (np.int64(2), None)).order("col0").fetchall() == [(1, day), (2, None)]
    assert db.values([[1, 2], {"a": 1}]).fetchall() == [([1, 2], {"a": 1})]
    with pytest.raises(freestone.ProgrammingError, match="rows of one length"):
        db.values((1, 2), (3,))
    with pytest.raises(freestone.DataError, match="no SQL type"):
        db.values(object())


def test_parts_of_chains_read_frames_too(db):
    db.sql("create table t as select value as a from generate_series(0, 9) as g(value)")
    wanted = pd.DataFrame({"n": [2, 3]})
    db.register("more", pa.table({"n": [5]}))
    assert db.table("t").filter("a in (select n from wanted) or a in (select n from more)").count().fetchall() == [(3,)]
    kept = db.table("t").join(db.table("t").set_alias("u"), "t.a = u.a").filter("t.a in (select n from wanted)")
    del wanted
    assert kept.project("t.a").order("a").fetchall() == [(2,), (3,)]
    kept = [db.table("t").join(db.table("t").set_alias("u"), "t.a = u.a and t.a in (select n from least)") for least in frames(pd.DataFrame({"n": [7]}))]
    assert [relation.project("t.a").fetchall() for relation in kept] == [[(7,)]] * 3
    with pytest.raises(freestone.ProgrammingError, match="no table or view wanted"):
        db.table("t").filter("a in (select n from wanted)")


def test_streams_are_read_once(db):
    reader = pa.table({"n": [1, 2, 3]}).to_reader()
    relation = db.from_arrow(reader).filter("n > 1").project("n * 2 as m")
    assert repr(relation) == "<freestone.Relation (m BIGINT) of a stream>"
    assert relation.fetchall() == [(4,), (6,)]
    both = db.from_arrow(pa.table({"n": [1]}).to_reader()).union(db.values((2,)))
    assert sorted(both.fetchall()) == [(1,), (2,)]


def test_variables_that_are_no_tables_are_named(db):
    wanted, Wider = 3, object()  # noqa: F841, N806 - statements name them
    with pytest.raises(freestone.ProgrammingError, match="no table or view wanted, and the variable wanted is a value of type int, which is no"):
        db.sql("from wanted")
    with pytest.raises(freestone.ProgrammingError, match="the variable wider is a value of type object"):
        db.sql("from Wider")
    with pytest.raises(freestone.ProgrammingError, match="no table or view other\\b(?!.*variable)"):
        db.sql("from other")
