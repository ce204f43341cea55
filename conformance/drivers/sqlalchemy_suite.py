"""SQLAlchemy and pandas, through psycopg: reflection, types, inserts with RETURNING, the object-relational mapper, `to_sql`, COPY."""

import datetime
import decimal
import uuid

import pandas
import sqlalchemy as sa
from checks import ERRORS_TABLE, check, each, equal, errors, login, run
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql as pg

TABLES = """
DROP VIEW IF EXISTS reflected_view;
DROP TABLE IF EXISTS reflected_child;
DROP TABLE IF EXISTS reflected_parent;
CREATE TABLE reflected_parent (
    id SERIAL PRIMARY KEY,
    name VARCHAR(20) NOT NULL UNIQUE,
    price NUMERIC(10, 2) DEFAULT 1.50,
    at TIMESTAMP WITH TIME ZONE,
    tags TEXT[],
    said JSONB,
    CONSTRAINT price_is_positive CHECK (price > 0)
);
CREATE TABLE reflected_child (
    a INTEGER, b INTEGER, parent INTEGER REFERENCES reflected_parent (id), PRIMARY KEY (a, b)
);
CREATE INDEX reflected_index ON reflected_child (parent);
CREATE VIEW reflected_view AS SELECT id, name FROM reflected_parent;
COMMENT ON TABLE reflected_parent IS 'the parents';
COMMENT ON COLUMN reflected_parent.name IS 'its name';
"""
VALUES = [
    ("smallint", sa.SmallInteger(), -7),
    ("bigint", sa.BigInteger(), 2**62),
    ("double", sa.Double(), 2.25),
    ("numeric", sa.Numeric(10, 2), decimal.Decimal("12.30")),
    ("text", sa.Text(), "ä 日本語 '\"\\ %"),
    ("string", sa.String(10), "abc"),
    ("boolean", sa.Boolean(), True),
    ("date", sa.Date(), datetime.date(2024, 2, 29)),
    ("time", sa.Time(), datetime.time(10, 20, 30)),
    ("timestamp", sa.DateTime(), datetime.datetime(2024, 2, 29, 10, 20, 30, 123_456)),
    ("timestamp with zone", sa.DateTime(timezone=True), datetime.datetime(2024, 2, 29, tzinfo=datetime.timezone.utc)),
    ("interval", sa.Interval(), datetime.timedelta(days=3, seconds=4)),
    ("uuid", sa.Uuid(), uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
    ("binary", sa.LargeBinary(), b"\x00\xff\\"),
    ("json", sa.JSON(), {"a": [1, None]}),
    ("jsonb", pg.JSONB(), {"a": [1, None]}),
    ("array", pg.ARRAY(sa.Integer), [1, 2, 3]),
    ("enum", sa.Enum("sad", "ok", name="mood_of_sqlalchemy"), "ok"),
]


def connected():
    host, port, user, password, database = login()
    where = sa.URL.create("postgresql+psycopg", user, password, host, port, database)
    return sa.create_engine(where, poolclass=sa.NullPool).connect()


def made(connection):
    for statement in TABLES.strip().split(";\n"):
        connection.exec_driver_sql(statement.removesuffix(";"))
    connection.commit()
    return sa.inspect(connection)


@each("types", VALUES)
def in_a_column(connection, of, value):
    metadata = sa.MetaData()
    table = sa.Table("kept_of_it", metadata, sa.Column("n", sa.Integer, primary_key=True), sa.Column("c", of))
    metadata.drop_all(connection)
    metadata.create_all(connection)
    connection.execute(table.insert(), [{"n": 1, "c": value}])
    connection.execute(table.insert().values(n=2, c=sa.null()))
    equal([row.c for row in connection.execute(sa.select(table.c.c).order_by(table.c.n))], [value, None])
    if type(of) is not sa.JSON:  # The type json has no equality.
        equal(connection.scalar(sa.select(table.c.n).where(table.c.c == value)), 1)
    reflected = sa.Table("kept_of_it", sa.MetaData(), autoload_with=connection)
    given = sa.Double() if isinstance(of, sa.Double) else of
    equal(str(reflected.c.c.type.compile(connection.dialect)), str(given.compile(connection.dialect)))
    metadata.drop_all(connection)
    connection.commit()


@check("reflection.names")
def names(connection):
    inspector = made(connection)
    equal({"reflected_parent", "reflected_child"} <= set(inspector.get_table_names()), True)
    equal("reflected_view" in inspector.get_view_names(), True)
    equal({"public", "information_schema"} <= set(inspector.get_schema_names()), True)
    equal(inspector.default_schema_name, "public")
    equal((inspector.has_table("reflected_parent"), inspector.has_table("nothing_there")), (True, False))


@check("reflection.columns")
def columns(connection):
    found = made(connection).get_columns("reflected_parent")
    equal([column["name"] for column in found], ["id", "name", "price", "at", "tags", "said"])
    written = [str(column["type"].compile(connection.dialect)) for column in found]
    equal(written, ["INTEGER", "VARCHAR(20)", "NUMERIC(10, 2)", "TIMESTAMP WITH TIME ZONE", "TEXT[]", "JSONB"])
    equal([column["nullable"] for column in found], [False, False, True, True, True, True])
    equal([column["comment"] for column in found], [None, "its name", None, None, None, None])


@check("reflection.defaults")
def defaults(connection):
    found = made(connection).get_columns("reflected_parent")
    equal(found[2]["default"], "1.50")
    equal(found[0]["autoincrement"], True)


@check("reflection.keys")
def keys(connection):
    inspector = made(connection)
    equal(inspector.get_pk_constraint("reflected_child")["constrained_columns"], ["a", "b"])
    equal(inspector.get_pk_constraint("reflected_parent")["name"], "reflected_parent_pkey")
    key, = inspector.get_foreign_keys("reflected_child")
    equal((key["constrained_columns"], key["referred_table"], key["referred_columns"]), (["parent"], "reflected_parent", ["id"]))
    equal(key["name"], "reflected_child_parent_fkey")


@check("reflection.constraints")
def constraints(connection):
    inspector = made(connection)
    unique, = inspector.get_unique_constraints("reflected_parent")
    equal((unique["name"], unique["column_names"]), ("reflected_parent_name_key", ["name"]))
    checked, = inspector.get_check_constraints("reflected_parent")
    equal(checked["name"], "price_is_positive")


@check("reflection.indexes")
def indexes(connection):
    inspector = made(connection)
    index, = inspector.get_indexes("reflected_child")
    equal((index["name"], index["column_names"], index["unique"]), ("reflected_index", ["parent"], False))


@check("reflection.comments")
def comments(connection):
    equal(made(connection).get_table_comment("reflected_parent")["text"], "the parents")


@check("reflection.views")
def views(connection):
    inspector = made(connection)
    equal([column["name"] for column in inspector.get_columns("reflected_view")], ["id", "name"])
    equal("reflected_parent" in inspector.get_view_definition("reflected_view"), True)


@check("reflection.schemas")
def schemas(connection):
    connection.exec_driver_sql("DROP SCHEMA IF EXISTS other_of_it CASCADE")
    connection.exec_driver_sql("CREATE SCHEMA other_of_it")
    connection.exec_driver_sql("CREATE TABLE other_of_it.t (a INTEGER PRIMARY KEY, b TEXT)")
    connection.commit()
    inspector = sa.inspect(connection)
    equal("other_of_it" in inspector.get_schema_names(), True)
    equal(inspector.get_table_names(schema="other_of_it"), ["t"])
    equal([column["name"] for column in inspector.get_columns("t", schema="other_of_it")], ["a", "b"])
    equal(inspector.get_pk_constraint("t", schema="other_of_it")["constrained_columns"], ["a"])
    connection.exec_driver_sql("DROP SCHEMA other_of_it CASCADE")
    connection.commit()


@check("reflection.search path")
def search_path(connection):
    connection.exec_driver_sql("DROP SCHEMA IF EXISTS searched CASCADE")
    connection.exec_driver_sql("CREATE SCHEMA searched")
    connection.exec_driver_sql("CREATE TABLE searched.found_there (a INTEGER)")
    connection.exec_driver_sql("SET search_path TO searched, public")
    equal(connection.scalar(sa.text("SELECT current_schema()")), "searched")
    equal(connection.scalar(sa.text("SELECT count(*) FROM found_there")), 0)


@check("reflection.enums")
def enums(connection):
    connection.exec_driver_sql("DROP TYPE IF EXISTS mood_of_sqlalchemy")
    connection.exec_driver_sql("CREATE TYPE mood_of_sqlalchemy AS ENUM ('sad', 'ok')")
    connection.commit()
    found = [known for known in sa.inspect(connection).get_enums() if known["name"] == "mood_of_sqlalchemy"]
    equal([(known["labels"], known["schema"]) for known in found], [(["sad", "ok"], "public")])
    connection.exec_driver_sql("DROP TYPE mood_of_sqlalchemy")
    connection.commit()


@check("reflection.sequences")
def sequences(connection):
    equal("reflected_parent_id_seq" in made(connection).get_sequence_names(), True)


@check("reflection.metadata")
def metadata(connection):
    made(connection)
    reflected = sa.MetaData()
    reflected.reflect(connection, only=["reflected_child", "reflected_parent"], views=True)
    child = reflected.tables["reflected_child"]
    equal([key.target_fullname for key in child.foreign_keys], ["reflected_parent.id"])


class Base(orm.DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "authors_of_it"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(20))
    books: orm.Mapped[list["Book"]] = orm.relationship(back_populates="author")


class Book(Base):
    __tablename__ = "books_of_it"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    title: orm.Mapped[str]
    author_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("authors_of_it.id"))
    author: orm.Mapped[Author] = orm.relationship(back_populates="books")


@check("mapper")
def mapper(connection):
    Base.metadata.drop_all(connection)
    Base.metadata.create_all(connection)
    connection.commit()
    with orm.Session(connection) as session:
        session.add_all([Author(name="Ann", books=[Book(title="One"), Book(title="Two")]), Author(name="Bo")])
        session.commit()
        author = session.scalar(sa.select(Author).options(orm.selectinload(Author.books)).where(Author.name == "Ann"))
        equal(sorted(book.title for book in author.books), ["One", "Two"])
        author.name = "Anna"
        session.delete(author.books[0])
        session.commit()
        counted = sa.select(Author.name, sa.func.count(Book.id)).outerjoin(Book).group_by(Author.name).order_by(Author.name)
        equal([tuple(row) for row in session.execute(counted)], [("Anna", 1), ("Bo", 0)])
    Base.metadata.drop_all(connection)
    connection.commit()


@check("upsert")
def upsert(connection):
    table = sa.Table("upserted", sa.MetaData(), sa.Column("k", sa.Integer, primary_key=True), sa.Column("v", sa.Text), prefixes=["TEMPORARY"])
    table.create(connection)
    for value in ("a", "b"):
        insert = pg.insert(table).values(k=1, v=value)
        insert = insert.on_conflict_do_update(index_elements=["k"], set_={"v": insert.excluded.v}).returning(table.c.v)
        equal(connection.scalar(insert), value)


@check("streams")
def streams(connection):
    numbers = connection.execution_options(yield_per=10).execute(sa.text("SELECT n FROM generate_series(1, 35) AS s(n) ORDER BY n"))
    equal([row.n for row in numbers], list(range(1, 36)))


@check("savepoints")
def savepoints(connection):
    connection.exec_driver_sql("CREATE TEMP TABLE saved (a INTEGER)")
    connection.exec_driver_sql("INSERT INTO saved VALUES (1)")
    try:
        with connection.begin_nested():
            connection.exec_driver_sql("INSERT INTO saved VALUES (2)")
            connection.exec_driver_sql("SELECT 1 / 0")
    except sa.exc.DataError:
        pass
    equal(connection.scalar(sa.text("SELECT count(*) FROM saved")), 1)


@check("pandas.to_sql")
def to_sql(connection):
    frame = pandas.DataFrame({
        "n": [1, 2, 3],
        "x": [1.5, None, 2.5],
        "s": ["a", None, "ä"],
        "t": pandas.to_datetime(["2024-02-29 10:20:30", None, "2024-03-01 00:00:00"]),
        "b": [True, False, True],
    })
    for method in (None, "multi"):
        equal(frame.to_sql("frame_of_it", connection, index=False, if_exists="replace", method=method, chunksize=2) is not None, True)
        found = pandas.read_sql_table("frame_of_it", connection)
        equal(list(found.columns), list(frame.columns))
        equal([str(kind) for kind in found.dtypes][:2], ["int64", "float64"])
        equal(found["s"].fillna("-").tolist(), ["a", "-", "ä"])
        equal(found["t"].fillna(pandas.Timestamp(0)).tolist(), frame["t"].fillna(pandas.Timestamp(0)).tolist())
    frame.to_sql("frame_of_it", connection, index=False, if_exists="append")
    equal(connection.scalar(sa.text("SELECT count(*) FROM frame_of_it")), 6)
    found = pandas.read_sql("SELECT sum(n) AS n FROM frame_of_it WHERE s = %(s)s", connection, params={"s": "a"})
    equal(int(found["n"][0]), 2)
    connection.exec_driver_sql("DROP TABLE frame_of_it")
    connection.commit()


@each("errors", errors())
def failed(connection, sql, state):
    for statement in ERRORS_TABLE:
        connection.exec_driver_sql(statement)
    try:
        connection.exec_driver_sql(sql)
    except sa.exc.DBAPIError as error:
        equal(error.orig.sqlstate, state)
    else:
        raise AssertionError("there was no error")


if __name__ == "__main__":
    run(connected)
