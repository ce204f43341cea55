"""The names that DuckDB's users type: functions of the package, methods of connections and of relations."""

import freestone
import pandas
import pyarrow
import pytest

MODULE = """aggregate alias append arrow begin close commit connect create_function cursor default_connection description df distinct
    duplicate execute executemany fetch_arrow_table fetch_df fetch_record_batch fetchall fetchdf fetchmany fetchnumpy fetchone filter
    from_arrow from_csv_auto from_df from_parquet from_query interrupt limit order pl project query query_df read_csv read_json
    read_parquet register remove_function rollback rowcount set_default_connection sql table table_function to_arrow_reader
    to_arrow_table unregister values view write_csv""".split()

CONNECTION = """append arrow begin close commit create_function cursor description df duplicate execute executemany fetch_arrow_table
    fetch_df fetch_record_batch fetchall fetchdf fetchmany fetchnumpy fetchone from_arrow from_csv_auto from_df from_parquet
    from_query interrupt pl query read_csv read_json read_parquet register remove_function rollback rowcount sql table
    table_function to_arrow_reader to_arrow_table unregister values view""".split()

RELATION = """aggregate alias any_value arg_max arg_min arrow avg bit_and bit_or bit_xor bool_and bool_or columns count create create_view
    cross cume_dist dense_rank describe description df distinct dtypes except_ execute explain favg fetch_arrow_reader
    fetch_arrow_table fetch_record_batch fetchall fetchdf fetchmany fetchnumpy fetchone filter first first_value fsum geomean
    histogram insert_into intersect join lag last last_value lead limit list map max mean median min mode n_tile nth_value order
    percent_rank pl product project quantile quantile_cont quantile_disc query rank rank_dense row_number select select_dtypes
    select_types set_alias shape show sort sql_query std stddev stddev_pop stddev_samp string_agg sum to_arrow_reader to_arrow_table
    to_csv to_df to_parquet to_table to_view types union union_by_name unique value_counts var var_pop var_samp variance write_csv
    write_parquet""".split()


@pytest.mark.parametrize(
    ("thing", "names"), [(freestone, MODULE), (freestone.Connection, CONNECTION), (freestone.Relation, RELATION)]
)
def test_names_exist(thing, names):
    assert [name for name in names if not hasattr(thing, name)] == []


@pytest.fixture
def shared():
    """The default connection, to a database of its own."""
    before = freestone.default_connection()
    with freestone.connect(threads=2) as connection:
        freestone.set_default_connection(connection)
        yield connection
        freestone.set_default_connection(before)


@pytest.fixture
def frame():
    return pandas.DataFrame({"g": ["a", "b", "a", "b"], "n": [1, 2, 3, 4]})


def test_the_package_is_its_default_connection(shared, frame, tmp_path):
    assert freestone.default_connection() is shared
    freestone.execute("CREATE TABLE t AS SELECT * FROM frame")
    assert freestone.execute("SELECT count(*) FROM t").fetchone() == (4,)
    freestone.execute("SELECT n FROM t ORDER BY n")
    assert (freestone.fetchone(), freestone.fetchmany(2), freestone.fetchall()) == ((1,), [(2,), (3,)], [(4,)])
    assert freestone.description()[0][0] == "n"
    assert freestone.table("t").max("n").fetchone() == freestone.view("t").max("n").fetchone() == (4,)
    freestone.append("t", frame)
    freestone.executemany("INSERT INTO t VALUES (?, ?)", [("c", 5), ("d", 6)])
    assert freestone.query("SELECT count(*), max(n) FROM t").fetchone() == (10, 6)
    freestone.begin()
    freestone.execute("DELETE FROM t")
    freestone.rollback()
    assert freestone.from_query("SELECT count(*) FROM t").fetchone() == (10,)
    freestone.register("named", frame)
    assert freestone.sql("SELECT sum(n) FROM named").fetchone() == (10,)
    freestone.unregister("named")
    for name, read in (("x.csv", freestone.read_csv), ("x.parquet", freestone.read_parquet)):
        getattr(freestone.from_df(frame), "to_csv" if name.endswith("csv") else "to_parquet")(tmp_path / name)
        assert read(tmp_path / name).fetchall() == freestone.from_arrow(pyarrow.table(frame)).fetchall()
    assert freestone.from_parquet(tmp_path / "x.parquet").shape == freestone.from_csv_auto(tmp_path / "x.csv").shape == (4, 2)
    assert freestone.values((1, "a")).fetchall() == [(1, "a")]
    freestone.create_function("twice", lambda a: 2 * a, [int], int)
    assert freestone.sql("SELECT twice(4)").fetchall() == [(8,)]
    assert freestone.remove_function("twice") is shared


def test_functions_of_the_package_take_a_connection_or_a_frame(shared, frame):
    with freestone.connect() as other:
        other.sql("CREATE TABLE only_here AS SELECT 7 AS a")
        assert freestone.sql("SELECT a FROM only_here", connection=other).fetchall() == [(7,)]
        assert freestone.table("only_here", connection=other).fetchall() == [(7,)]
    assert freestone.filter(frame, "n > 3").fetchall() == [("b", 4)]
    assert freestone.project(frame, "n + 1").order("1").limit(1).fetchall() == [(2,)]
    assert freestone.aggregate(frame, "g, sum(n)").order("g").fetchall() == [("a", 4), ("b", 6)]
    assert freestone.distinct(freestone.project(frame, "g")).order("g").fetchall() == [("a",), ("b",)]
    assert freestone.query_df(frame, "given", "SELECT max(n) FROM given").fetchall() == [(4,)]
    assert freestone.arrow(pyarrow.table(frame)).fetchall() == freestone.limit(frame, 4).fetchall()
    with pytest.raises(freestone.InterfaceError, match="takes a connection"):
        freestone.set_default_connection("x")


def test_executemany_and_append(db, frame):
    db.sql("CREATE TABLE t (g VARCHAR, n BIGINT DEFAULT 9)")
    db.executemany("INSERT INTO t VALUES (?, ?)", [("a", 1), (None, 2)])
    db.executemany("UPDATE t SET n = n + $1 WHERE g = $2", [(10, "a"), (20, "a")])
    assert db.sql("SELECT * FROM t ORDER BY n").fetchall() == [(None, 2), ("a", 31)]
    with pytest.raises(freestone.DataError):
        db.executemany("INSERT INTO t VALUES (?, ?)", [("a", 1), ("b", "x")])
    with pytest.raises(freestone.ProgrammingError, match="takes statements without rows"):
        db.executemany("SELECT ?", [(1,)])
    assert db.executemany("INSERT INTO t VALUES (?, ?)", []) is db
    db.append("t", frame).append("t", frame[["g"]].head(1), by_name=True)
    assert db.sql("SELECT count(*), count(*) FILTER (WHERE n = 9) FROM t").fetchone() == (7, 1)
    for given in ((("t"), 1), ("t; DROP TABLE t", frame), ("u", frame)):
        with pytest.raises(freestone.ProgrammingError):
            db.append(*given)
    assert db.sql("SELECT count(*) FROM t").fetchone() == (7,)


def test_executemany_in_a_transaction(here):
    here.sql("CREATE TABLE t (a VARCHAR, b DOUBLE)")
    here.begin().executemany("INSERT INTO t VALUES (?, ?)", [("a", 1), ("b", 2.5), ("c", None)])
    assert here.sql("SELECT count(*) FROM t").fetchone() == (3,)
    here.rollback()
    assert here.sql("SELECT count(*) FROM t").fetchone() == (0,)


def test_windows(db, frame):
    numbers = db.from_df(frame)
    over = "OVER (PARTITION BY g ORDER BY n)"

    def values(relation):
        return relation.order("g, n").project("* EXCLUDE (g, n)").fetchall()

    assert values(numbers.row_number(over, "g, n")) == [(1,), (2,), (1,), (2,)]
    for method, expected in (("rank", 2), ("dense_rank", 2), ("rank_dense", 2), ("percent_rank", 1.0), ("cume_dist", 1.0)):
        assert values(getattr(numbers, method)(over, "g, n"))[1] == (expected,), method
    assert values(numbers.n_tile("OVER (ORDER BY n)", 2, "g, n")) == [(1,), (2,), (1,), (2,)]
    assert values(numbers.lag("n", over, projected_columns="g, n")) == [(None,), (1,), (None,), (2,)]
    assert values(numbers.lead("n", over, 1, "-1", projected_columns="g, n")) == [(3,), (-1,), (4,), (-1,)]
    assert values(numbers.first_value("n", over, "g, n")) == [(1,), (1,), (2,), (2,)]
    assert values(numbers.last_value("n", over, "g, n")) == [(1,), (3,), (2,), (4,)]
    assert values(numbers.nth_value("n", over, 2, projected_columns="g, n")) == [(None,), (3,), (None,), (4,)]
    assert len(numbers.row_number("OVER ()").columns) == 1
    with pytest.raises(freestone.InterfaceError, match="takes a whole number"):
        numbers.lag("n", over, "1")
    with pytest.raises(freestone.ProgrammingError, match="closes a"):
        numbers.rank("OVER ()) FROM other, (SELECT 1")


def test_other_forms_of_rows(db, frame):
    rows = db.from_df(frame)
    reader = rows.fetch_record_batch(3)
    assert [batch.num_rows for batch in reader] == [3, 1]
    assert rows.to_arrow_table().equals(rows.arrow())
    assert rows.to_arrow_reader().read_all().num_rows == rows.fetch_arrow_reader().read_all().num_rows == 4
    db.execute("SELECT * FROM frame")
    assert db.fetch_record_batch().read_all().num_rows == len(db.fetch_df()) == db.to_arrow_table().num_rows == 4
    with pytest.raises(freestone.InterfaceError, match="a number of rows of 1 or more"):
        rows.fetch_record_batch(0)
    assert rows.map(lambda given: given.assign(m=given["n"] * 2)).filter("m > 6").fetchall() == [("b", 4, 8)]
    with pytest.raises(freestone.ProgrammingError, match="which is no table"):
        rows.map(lambda given: 1)
    assert rows.select_types(["bigint"]).columns == rows.select_dtypes(["BIGINT"]).columns == ["n"]
    with pytest.raises(freestone.ProgrammingError, match="no column has a type"):
        rows.select_types(["DATE"])
    both = rows.union_by_name(db.sql("SELECT 5 AS n, true AS h"))
    assert (both.columns, both.filter("h").fetchall()) == (["g", "n", "h"], [(None, 5, True)])
    assert db.table_function("range", [3]).fetchall() == [(0,), (1,), (2,)]
    assert "SELECT" in rows.sql_query()
