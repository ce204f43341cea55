"""The dialect of SQLAlchemy, on a folder, in memory and on a server. SQLAlchemy's own tests are in python/ecosystem."""

import datetime
import decimal
import threading
import uuid

import pandas
import pytest
import sqlalchemy as sa
from conftest import serving
from sqlalchemy.orm import DeclarativeBase, Session, mapped_column


class Base(DeclarativeBase):
    pass


class City(Base):
    __tablename__ = "cities"
    id = mapped_column(sa.Integer, primary_key=True)
    name = mapped_column(sa.String(20), unique=True)
    people = mapped_column(sa.BigInteger, comment="in thousands")


class Sale(Base):
    __tablename__ = "sales"
    __table_args__ = {"freestone_sort": ["day", "city"], "freestone_preset": "column"}
    id = mapped_column(sa.Integer, primary_key=True)
    city = mapped_column(sa.ForeignKey("cities.id"))
    day = mapped_column(sa.Date, index=True)
    price = mapped_column(sa.Numeric(10, 2))


@pytest.fixture
def engine(place):
    path, _ = place
    address = "freestone://" if path == ":memory:" else path
    made = sa.create_engine(address)
    yield made
    with made.begin() as connection:
        connection.exec_driver_sql("DROP VIEW IF EXISTS expensive")
        Base.metadata.drop_all(connection)
    made.dispose()


def test_objects_are_kept_and_found(engine):
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all([City(name="Oslo", people=700), City(name="Rome", people=2800)])
        session.flush()
        oslo = session.scalars(sa.select(City).where(City.name == "Oslo")).one()
        session.add_all([Sale(city=oslo.id, day=datetime.date(2024, 1, n), price=decimal.Decimal("1.25") * n) for n in (1, 2, 3)])
        session.commit()
        total = sa.select(City.name, sa.func.sum(Sale.price)).join(Sale, Sale.city == City.id).group_by(City.name)
        assert session.execute(total).all() == [("Oslo", decimal.Decimal("7.50"))]
        oslo.people = 710
        session.commit()
        assert session.get(City, oslo.id).people == 710
        session.add(City(name="Oslo"))
        with pytest.raises(sa.exc.IntegrityError):
            session.flush()
        session.rollback()


def test_reflection_finds_designs_keys_and_comments(engine):
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE VIEW expensive AS SELECT id FROM sales WHERE price > 5")
    inspector = sa.inspect(engine)
    assert inspector.get_table_names() == ["cities", "sales"] and inspector.get_view_names() == ["expensive"]
    assert inspector.get_table_options("sales") == {"freestone_preset": "column", "freestone_sort": "day, city"}
    (key,) = inspector.get_foreign_keys("sales")
    assert (key["constrained_columns"], key["referred_table"], key["referred_columns"]) == (["city"], "cities", ["id"])
    assert [index["column_names"] for index in inspector.get_indexes("sales")] == [["day"]]
    assert [key["column_names"] for key in inspector.get_unique_constraints("cities")] == [["name"]]
    assert {column["name"]: column["comment"] for column in inspector.get_columns("cities")}["people"] == "in thousands"
    found = sa.MetaData()
    found.reflect(engine)
    assert found.tables["sales"].dialect_options["freestone"]["sort"] == "day, city"


def test_types_go_both_ways(engine):
    metadata = sa.MetaData()
    values = {
        "b": True, "i": 7, "f": 0.1, "n": decimal.Decimal("1.25"), "s": "x", "y": b"\0\1", "d": datetime.date(2024, 2, 29),
        "t": datetime.time(1, 2, 3), "at": datetime.datetime(2024, 2, 29, 1, 2, 3, 4), "u": uuid.UUID(int=5),
        "z": datetime.datetime(2024, 2, 29, tzinfo=datetime.timezone.utc), "iv": datetime.timedelta(days=1, seconds=2),
        "a": [1, 2], "j": {"k": [1, None, "ü"]}, "e": "two",
    }  # fmt: skip
    kinds = [
        sa.Boolean(), sa.SmallInteger(), sa.Float(), sa.Numeric(10, 2), sa.String(5), sa.LargeBinary(), sa.Date(), sa.Time(), sa.DateTime(),
        sa.Uuid(), sa.DateTime(timezone=True), sa.Interval(), sa.ARRAY(sa.Integer), sa.JSON(), sa.Enum("one", "two"),
    ]  # fmt: skip
    table = sa.Table("t", metadata, *(sa.Column(name, kind) for name, kind in zip(values, kinds)))
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(table.insert(), [values, dict.fromkeys(values)])
        found = connection.execute(sa.select(table).order_by(table.c.i.nulls_last())).mappings().all()
        assert found == [values, dict.fromkeys(values)]
        inner = sa.select(table.c.j["k"][0].as_integer(), table.c.j[("k", 2)].as_string()).where(table.c.i == 7)
        assert connection.execute(inner).one() == (1, "ü")
        reflected = sa.Table("t", sa.MetaData(), autoload_with=connection)
        assert connection.execute(sa.select(reflected).where(reflected.c.i == 7)).mappings().one() == values


def test_pandas_reads_and_writes(engine):
    frame = pandas.DataFrame({"a": [1, 2], "s": ["x", None], "d": pandas.to_datetime(["2024-01-01", None])})
    assert frame.to_sql("frame", engine, index=False) == 2
    frame.to_sql("frame", engine, index=False, if_exists="append")
    back = pandas.read_sql_table("frame", engine)
    assert back["a"].tolist() == [1, 2, 1, 2] and back["s"].isna().sum() == 2
    query = sa.text("SELECT * FROM frame WHERE a > :least")
    assert pandas.read_sql(query, engine, params={"least": 1})["a"].tolist() == [2, 2]


def test_transactions_have_levels(engine):
    with engine.connect() as connection:
        assert connection.get_isolation_level() == "REPEATABLE READ"
        connection.exec_driver_sql("CREATE TABLE t (a INT)")
        connection.rollback()
        assert not sa.inspect(connection).has_table("t")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("CREATE TABLE t (a INT)")
    with engine.connect().execution_options(isolation_level="READ COMMITTED") as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM t")).scalar() == 0
        with engine.begin() as other:
            other.exec_driver_sql("INSERT INTO t VALUES (1)")
        assert connection.execute(sa.text("SELECT count(*) FROM t")).scalar() == 1
        with connection.begin_nested() as savepoint:
            connection.exec_driver_sql("INSERT INTO t VALUES (2)")
            savepoint.rollback()
        assert connection.execute(sa.text("SELECT count(*) FROM t")).scalar() == 1


def test_threads_share_a_database_in_memory():
    engine = sa.create_engine("freestone://")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t AS SELECT 1 AS a")
    found = []

    def read():
        with engine.connect() as connection:
            found.append(connection.exec_driver_sql("SELECT a FROM t").scalar())

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1] * 4
    with sa.create_engine("freestone://").connect() as other:
        assert not sa.inspect(other).has_table("t"), "another engine has another database"


def test_addresses(tmp_path):
    with sa.create_engine(f"freestone:///{tmp_path}/db?threads=1").begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (a INT)")
    with sa.create_engine(f"freestone:///{tmp_path}/db?read_only=true").connect() as connection:
        with pytest.raises(sa.exc.OperationalError, match="for reading only"):
            connection.exec_driver_sql("INSERT INTO t VALUES (1)")
    with pytest.raises(sa.exc.ArgumentError, match="unknown argument 'thread'"):
        sa.create_engine("freestone:///x?thread=1").connect()
    with pytest.raises(sa.exc.OperationalError):
        sa.create_engine("freestone://ann:pass%20word@localhost:1/").connect()


def test_a_connection_that_the_server_ended_is_left():
    with serving("--threads", "1", "--memory-limit", "256MB") as address:
        engine = sa.create_engine(address)
        with engine.connect() as connection:
            connection.exec_driver_sql("SELECT 1")
    with engine.connect() as connection, pytest.raises(sa.exc.OperationalError, match="the connection") as raised:
        connection.exec_driver_sql("SELECT 1")
    assert raised.value.connection_invalidated


def test_wrong_designs_are_errors():
    engine = sa.create_engine("freestone://")
    with pytest.raises(sa.exc.ProgrammingError, match="colum"):
        sa.Table("t", sa.MetaData(), sa.Column("a", sa.Integer), freestone_preset="colum").create(engine)
    with pytest.raises(sa.exc.CompileError, match="freestone_sort is text"):
        sa.Table("t", sa.MetaData(), sa.Column("a", sa.Integer), freestone_sort=1.5).create(engine)
    with pytest.raises(sa.exc.ArgumentError, match="wrong"):
        sa.Table("t", sa.MetaData(), sa.Column("a", sa.Integer), freestone_wrong=1)
