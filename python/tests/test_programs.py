"""SQLAlchemy and pandas with the server, by psycopg: reflection, object-relational mapping, reading and writing."""

import datetime
import decimal
import pathlib
import sys

import pandas
import pytest
import sqlalchemy
from sqlalchemy.orm import Session, declarative_base

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "conformance"))

import server  # noqa: E402

Base = declarative_base()


class Item(Base):
    __tablename__ = "items"
    id = sqlalchemy.Column(sqlalchemy.Integer, primary_key=True, autoincrement=False)
    name = sqlalchemy.Column(sqlalchemy.String(20))
    at = sqlalchemy.Column(sqlalchemy.DateTime)
    price = sqlalchemy.Column(sqlalchemy.Numeric(10, 2))
    sold = sqlalchemy.Column(sqlalchemy.Boolean)


@pytest.fixture(scope="module")
def engine():
    with server.running() as running:
        engine = sqlalchemy.create_engine(
            f"postgresql+psycopg://{running.user}:{running.password}@{running.postgres}/freestone"
        )
        with engine.begin() as connection:
            for statement in (
                "CREATE TABLE parent (k INT NOT NULL, PRIMARY KEY (k))",
                "CREATE TABLE child (a INT NOT NULL, k INT, n DECIMAL(10, 2), PRIMARY KEY (a), FOREIGN KEY (k) REFERENCES parent (k))",
                "CREATE VIEW pairs AS SELECT a, k FROM child",
            ):
                connection.exec_driver_sql(statement)
        yield engine
        engine.dispose()


def test_reflection_finds_tables_keys_and_views(engine):
    inspector = sqlalchemy.inspect(engine)
    assert {"child", "parent"} <= set(inspector.get_table_names())
    assert inspector.get_view_names() == ["pairs"]
    assert inspector.get_schema_names()
    columns = {column["name"]: column for column in inspector.get_columns("child")}
    assert isinstance(columns["a"]["type"], sqlalchemy.INTEGER) and not columns["a"]["nullable"]
    assert (columns["n"]["type"].precision, columns["n"]["type"].scale) == (10, 2)
    assert inspector.get_pk_constraint("child")["constrained_columns"] == ["a"]
    (key,) = inspector.get_foreign_keys("child")
    assert (key["constrained_columns"], key["referred_table"], key["referred_columns"]) == (["k"], "parent", ["k"])
    assert inspector.get_unique_constraints("child") == []
    assert inspector.get_check_constraints("child") == []
    assert inspector.has_table("child") and not inspector.has_table("nobody")
    metadata = sqlalchemy.MetaData()
    metadata.reflect(engine, views=True)
    assert {"child", "parent", "pairs"} <= set(metadata.tables)


def test_objects_are_kept_found_changed_and_deleted(engine):
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        for n in range(1, 6):
            at = datetime.datetime(2024, 1, n, 12, 30)
            session.add(Item(id=n, name=f"item {n}", at=at, price=decimal.Decimal("1.25") * n, sold=n % 2 == 0))
        session.commit()
        query = sqlalchemy.select(Item).where(Item.price > 2, Item.name.like("item%")).order_by(Item.id.desc())
        found = session.scalars(query.limit(2).offset(1)).all()
        assert [(item.id, item.price, item.sold) for item in found] == [
            (4, decimal.Decimal("5.00"), True),
            (3, decimal.Decimal("3.75"), False),
        ]
        some = session.scalars(sqlalchemy.select(Item.id).where(Item.id.in_([1, 2, 9]), Item.sold.is_(False))).all()
        assert some == [1]
        session.get(Item, 1).name = "changed"
        session.commit()
        assert session.get(Item, 1).name == "changed"
        session.delete(session.get(Item, 2))
        session.commit()
        totals = sqlalchemy.select(sqlalchemy.func.count(), sqlalchemy.func.sum(Item.price), sqlalchemy.func.max(Item.at))
        assert session.execute(totals).one() == (4, decimal.Decimal("16.25"), datetime.datetime(2024, 1, 5, 12, 30))


def test_frames_go_in_and_come_out(engine):
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", None], "c": pandas.to_datetime(["2024-01-01", None]), "d": [1.5, None]})
    frame.to_sql("frame", engine, index=False, if_exists="replace")
    back = pandas.read_sql("SELECT * FROM frame ORDER BY a", engine)
    assert back["a"].tolist() == [1, 2] and back["b"].isna().tolist() == [False, True]
    assert back["c"][0] == pandas.Timestamp("2024-01-01") and pandas.isna(back["d"][1])
    assert pandas.read_sql_table("frame", engine).shape == (2, 4)
    some = pandas.read_sql(sqlalchemy.text("SELECT * FROM frame WHERE a > :least"), engine, params={"least": 1})
    assert some["a"].tolist() == [2]
    chunks = pandas.read_sql("SELECT * FROM generate_series(1, 10)", engine, chunksize=4)
    assert [len(chunk) for chunk in chunks] == [4, 4, 2]
    with engine.connect().execution_options(stream_results=True) as connection:
        assert len(connection.execute(sqlalchemy.text("SELECT * FROM generate_series(1, 2500)")).fetchall()) == 2500
