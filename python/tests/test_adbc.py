"""The ADBC driver through the driver manager for Python, in this process and on a server."""

import ctypes
import datetime
import decimal
import os
import pathlib
import shutil
import subprocess
import sys
import threading

import adbc_driver_manager
import adbc_driver_manager.dbapi as manager
import freestone
import freestone.adbc
import pyarrow
import pytest
from conftest import TARGET
from test_server import ROWS, server  # noqa: F401 - a fixture

LIBRARY = TARGET / "release" / ("libfreestone_adbc.dylib" if sys.platform == "darwin" else "libfreestone_adbc.so")


@pytest.fixture(params=["embedded", "server"])
def place(request):
    """The address of a database: in memory, then on a server."""
    return ":memory:" if request.param == "embedded" else request.getfixturevalue("server")


@pytest.fixture
def connection(place):
    with freestone.adbc.connect(place) as connection:
        yield connection


@pytest.fixture
def cursor(connection):
    with connection.cursor() as cursor:
        yield cursor


def test_types_with_nulls_and_extremes(cursor):
    columns = {
        "b": (pyarrow.bool_(), [True, None, False]),
        "i8": (pyarrow.int8(), [-128, None, 127]),
        "i64": (pyarrow.int64(), [-(2**63), None, 2**63 - 1]),
        "u64": (pyarrow.uint64(), [0, None, 2**64 - 1]),
        "f32": (pyarrow.float32(), [float("-inf"), None, 0.5]),
        "f64": (pyarrow.float64(), [-1.7976931348623157e308, None, 5e-324]),
        "d": (pyarrow.decimal128(38, 4), [decimal.Decimal("-9999999999999999999999999999999999.9999"), None, decimal.Decimal(1)]),
        "day": (pyarrow.date32(), [datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31)]),
        "clock": (pyarrow.time64("us"), [datetime.time(0), None, datetime.time(23, 59, 59, 999999)]),
        "at": (pyarrow.timestamp("us"), [datetime.datetime(1, 1, 1), None, datetime.datetime(9999, 12, 31, 23, 59, 59)]),
        "s": (pyarrow.string(), ["", None, "ü€😀'\"\\"]),
        "bytes": (pyarrow.binary(), [b"", None, b"\x00\xff"]),
    }
    table = pyarrow.table({name: pyarrow.array(values, kind) for name, (kind, values) in columns.items()})
    assert cursor.adbc_ingest("every_type", table, mode="replace") == 3
    cursor.execute("SELECT * FROM every_type")
    back = cursor.fetch_arrow_table()
    assert back.schema.names == table.schema.names
    for name, (_, values) in columns.items():
        assert back.column(name).to_pylist() == values, name
    cursor.execute("SELECT * FROM every_type WHERE i8 > 0")
    assert cursor.fetchall() == [tuple(values[2] for _, values in columns.values())]
    assert cursor.execute("SELECT * FROM every_type WHERE false").fetchall() == []
    cursor.execute("DROP TABLE every_type")


def test_parameters_and_counts(cursor):
    cursor.execute("CREATE TABLE p (a INT, b VARCHAR)")
    cursor.execute("INSERT INTO p VALUES (1, 'one'), (2, NULL)")
    assert cursor.rowcount == 2
    cursor.executemany("INSERT INTO p VALUES (?, ?)", [(3, "three"), (4, None)])
    assert cursor.rowcount == 2
    assert cursor.execute("SELECT b FROM p WHERE a = ? OR a = ? ORDER BY a", (1, 4)).fetchall() == [("one",), (None,)]
    assert cursor.execute("SELECT a FROM p WHERE b = $text", {"text": "three"}).fetchall() == [(3,)]
    assert cursor.execute("SELECT $1 + 1", (41,)).fetchone() == (42,)
    assert cursor.execute("SELECT 1 AS a; SELECT 2 AS b").fetchall() == [(2,)]
    cursor.execute("UPDATE p SET b = 'x' WHERE a > 1")
    assert cursor.rowcount == 3
    cursor.execute("DROP TABLE p")


def test_results_are_streams(connection, cursor):
    cursor.execute("SELECT value FROM generate_series(1, 1000000)")
    reader = cursor.fetch_record_batch()
    sizes = [batch.num_rows for batch in reader]
    assert sum(sizes) == 1_000_000 and len(sizes) > 1
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_ingestion_modes(cursor):
    table = pyarrow.table({"a": [1, 2, 3], "b": ["x", None, "z"]})
    with pytest.raises(manager.ProgrammingError, match="no table"):
        cursor.adbc_ingest("i", table, mode="append")
    assert cursor.adbc_ingest("i", table, mode="create") == 3
    with pytest.raises(manager.ProgrammingError, match="exists"):
        cursor.adbc_ingest("i", table, mode="create")
    assert cursor.adbc_ingest("i", table.to_reader(), mode="append") == 3
    assert cursor.adbc_ingest("i", table, mode="create_append") == 3
    assert cursor.execute("SELECT count(*), count(b) FROM i").fetchall() == [(9, 6)]

    def broken():
        yield table.to_batches()[0]
        raise ValueError("the source broke")

    with pytest.raises(manager.Error, match="the source broke"):
        reader = pyarrow.RecordBatchReader.from_batches(table.schema, broken())
        cursor.adbc_ingest("i", reader, mode="replace")
    assert cursor.execute("SELECT count(*) FROM i").fetchall() == [(9,)]
    assert cursor.adbc_ingest("i", table.slice(0, 1), mode="replace") == 1
    # A temporary table comes before the other one of its name.
    cursor.adbc_ingest("i", table, temporary=True)
    assert cursor.execute("SELECT count(*) FROM i").fetchall() == [(table.num_rows,)]
    cursor.execute("DROP TABLE i")
    assert cursor.execute("SELECT count(*) FROM i").fetchall() == [(1,)]
    cursor.execute("DROP TABLE i")


def test_metadata(connection, cursor):
    cursor.execute("CREATE TABLE m (a INT NOT NULL, b DECIMAL(9, 2), PRIMARY KEY (a))")
    info = connection.adbc_get_info()
    assert (info["vendor_name"], info["driver_name"], info["driver_adbc_version"]) == ("Freestone", "ADBC Freestone Driver", 1_001_000)
    schema = connection.adbc_get_table_schema("m")
    assert schema.names == ["a", "b"] and schema.field("b").type == pyarrow.decimal128(9, 2)
    assert {"TABLE", "VIEW"} == set(connection.adbc_get_table_types())
    objects = connection.adbc_get_objects(table_name_filter="m").read_all().to_pylist()
    (table,) = objects[0]["catalog_db_schemas"][0]["db_schema_tables"]
    assert [column["column_name"] for column in table["table_columns"]] == ["a", "b"]
    assert table["table_constraints"][0]["constraint_column_names"] == ["a"]
    statistics = connection.adbc_get_statistics(table_name_filter="m").read_all().to_pylist()
    rows = statistics[0]["catalog_db_schemas"][0]["db_schema_statistics"]
    assert [row["statistic_value"] for row in rows if row["statistic_key"] == 6] == [0]
    assert (connection.adbc_current_catalog, connection.adbc_current_db_schema) == ("freestone", "public")
    cursor.adbc_prepare("SELECT a FROM m WHERE b = $price")
    assert cursor.adbc_execute_schema("SELECT b FROM m").field(0).type == pyarrow.decimal128(9, 2)
    cursor.execute("DROP TABLE m")


def test_errors(cursor):
    cursor.execute("CREATE TABLE lineitem (a INT NOT NULL)")
    for sql, kind, state in [
        ("SELEC 1", manager.ProgrammingError, "42601"),
        ("SELECT * FROM lineitm", manager.ProgrammingError, "42P01"),
        ("INSERT INTO lineitem VALUES (NULL)", manager.IntegrityError, "23502"),
        ("SELECT CAST('x' || a AS INT) FROM (VALUES (1)) AS v (a)", manager.DataError, "22P02"),
    ]:
        with pytest.raises(kind) as raised:
            cursor.execute(sql).fetchall()
        assert raised.value.sqlstate == state, sql
    with pytest.raises(manager.ProgrammingError, match="did you mean lineitem"):
        cursor.execute("SELECT * FROM lineitm")
    cursor.execute("DROP TABLE lineitem")


def test_errors_in_the_middle_of_a_result_have_their_state(cursor):
    # The first batches have no error.
    sql = "SELECT 1000000 / (900000 - value) FROM generate_series(1, 1000000)"
    with pytest.raises(manager.DataError, match="zero") as raised:
        cursor.execute(sql).fetchall()
    assert raised.value.sqlstate == "22012"


def test_transactions(place):
    with manager.connect(freestone.adbc.driver_path(), place) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE transacted AS SELECT 1 AS a")
        connection.commit()
        cursor.execute("INSERT INTO transacted VALUES (2)")
        connection.rollback()
        assert cursor.execute("SELECT count(*) FROM transacted").fetchone() == (1,)
        cursor.execute("DROP TABLE transacted")
        connection.commit()


def test_cancel(cursor):
    timer = threading.Timer(0.5, cursor.adbc_cancel)
    timer.start()
    with pytest.raises(manager.OperationalError, match="cancelled") as raised:
        cursor.execute("SELECT count(*) FROM generate_series(1, 100000000000) AS a (v) WHERE v % 3 = 1").fetchall()
    assert raised.value.sqlstate == "57014"
    timer.join()
    assert cursor.execute("SELECT 3").fetchall() == [(3,)]


def test_use_after_close(place):
    connection = freestone.adbc.connect(place)
    cursor = connection.cursor()
    cursor.execute("SELECT value FROM generate_series(1, 100000)")
    cursor.close()
    with pytest.raises(manager.Error):
        cursor.execute("SELECT 1")
    connection.close()
    with pytest.raises(manager.Error):
        connection.cursor().execute("SELECT 1")


def test_options(tmp_path):
    with freestone.adbc.connect(str(tmp_path / "db"), db_kwargs={"freestone.threads": 2}) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS a").close()
    read_only = {"freestone.read_only": True, "freestone.string_views": True}
    with freestone.adbc.connect(str(tmp_path / "db"), db_kwargs=read_only) as connection:
        views = "SELECT arrow_cast('x', 'Utf8View') AS s"
        assert connection.execute(views).fetch_arrow_table().schema.field(0).type == pyarrow.string_view()
        with pytest.raises(manager.Error, match="read"):
            connection.execute("INSERT INTO t VALUES (2)")
    with pytest.raises(manager.Error, match="freestone.threads"):
        freestone.adbc.connect(db_kwargs={"freestone.treads": 2})


def test_pandas_and_polars(server):  # noqa: F811 - the fixture
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    with freestone.adbc.connect(server) as connection:
        assert pandas.read_sql("SELECT sum(id) AS s FROM t", connection)["s"][0] == ROWS * (ROWS + 1) // 2
        assert polars.read_database("SELECT id, s FROM t", connection).shape == (ROWS, 2)
        pandas.DataFrame({"a": [1, 2]}).to_sql("from_pandas", connection, index=False)
        assert connection.execute("SELECT sum(a) FROM from_pandas").fetchone() == (3,)
        connection.execute("DROP TABLE from_pandas").close()


@pytest.mark.parametrize("driver", ["package", "library"])
def test_a_process_that_never_imports_freestone(driver):
    path = freestone.adbc.driver_path() if driver == "package" else str(LIBRARY)
    program = (
        "import sys, adbc_driver_manager.dbapi as manager\n"
        "with manager.connect(sys.argv[1], ':memory:', autocommit=True) as connection:\n"
        "    print(connection.execute('SELECT 40 + 2').fetchone())\n"
        "assert 'freestone' not in sys.modules\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", program, path], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.returncode) == ("(42,)", 0), done.stderr


def test_the_driver_is_where_it_is_said_to_be(monkeypatch, tmp_path):
    assert pathlib.Path(freestone.adbc.driver_path()).is_file()
    monkeypatch.setenv(freestone.adbc.VARIABLE, str(tmp_path / "nowhere.so"))
    with pytest.raises(freestone.NotSupportedError, match="nowhere.so"):
        freestone.adbc.driver_path()
    monkeypatch.setenv(freestone.adbc.VARIABLE, str(LIBRARY))
    with freestone.adbc.connect() as connection:
        assert connection.execute("SELECT 7").fetchone() == (7,)


class Error(ctypes.Structure):
    """The struct ``AdbcError`` of ADBC 1.0."""

    _fields_ = [("message", ctypes.c_char_p), ("vendor_code", ctypes.c_int32), ("sqlstate", ctypes.c_char * 5), ("release", ctypes.c_void_p)]


def test_the_library_by_its_c_functions():
    library = ctypes.CDLL(str(LIBRARY))
    for name in ["AdbcDriverInit", "AdbcDriverFreestoneInit"]:
        init = getattr(library, name)
        init.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        init.restype = ctypes.c_uint8
        error = Error()
        # More bytes than the table of functions has.
        table = ctypes.create_string_buffer(4096)
        assert init(1_001_000, ctypes.addressof(table), ctypes.addressof(error)) == adbc_driver_manager.AdbcStatusCode.OK
        assert any(table.raw)
        assert init(1_001_000, None, ctypes.addressof(error)) == adbc_driver_manager.AdbcStatusCode.INVALID_ARGUMENT
        assert b"null pointer" in error.message and error.sqlstate == b"22023"
        assert init(7, ctypes.addressof(table), ctypes.addressof(error)) == adbc_driver_manager.AdbcStatusCode.NOT_IMPLEMENTED
        assert b"1001000" in error.message


def test_a_program_in_c(tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    headers = pathlib.Path(adbc_driver_manager.__file__).parent
    source, program = pathlib.Path(__file__).with_name("adbc_program.c"), tmp_path / "program"
    subprocess.run([compiler, "-Wall", "-Werror", f"-I{headers}", source, "-o", program, "-ldl"], check=True)
    done = subprocess.run([program, LIBRARY], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "inserted 3",
        "rows 2 of 2 columns, sum 5",
        "status 3 state 42P01: no table or view u (hint: there are: t)",
        "released twice: status 6",
    ]
