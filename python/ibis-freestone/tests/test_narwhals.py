"""narwhals, which libraries such as Altair and plotly use to read tables of any kind, over Ibis' tables of Freestone."""

import datetime

import narwhals as nw
import pyarrow as pa
import pytest

ROWS = {
    "city": ["Oslo", "Rome", "Oslo", "Bern", None],
    "day": [datetime.date(2024, 1, at) for at in (3, 1, 2, 5, 4)],
    "sold": [3, 5, 4, None, 7],
    "price": [1.5, 2.0, 2.5, 3.0, 0.5],
}


@pytest.fixture
def sales(con):
    return nw.from_native(con.create_table("sales", pa.table(ROWS)))


def rows(frame):
    return frame.collect().to_native().to_pylist()


def test_frames_are_lazy_and_have_types(sales):
    assert isinstance(sales, nw.LazyFrame)
    assert sales.implementation is nw.Implementation.IBIS
    assert sales.collect_schema() == {"city": nw.String, "day": nw.Date, "sold": nw.Int64, "price": nw.Float64}
    assert sales.to_native().get_name() == "sales"
    assert isinstance(sales.collect("polars"), nw.DataFrame)


def test_filters_columns_and_order(sales):
    kept = sales.filter(nw.col("sold") > 3, nw.col("city").is_in(["Oslo", "Rome"]))
    kept = kept.with_columns(paid=nw.col("sold") * nw.col("price")).select("city", "paid").sort("city", descending=True)
    assert rows(kept) == [{"city": "Rome", "paid": 10.0}, {"city": "Oslo", "paid": 10.0}]
    first = sales.sort("day").head(2).select("day", month=nw.col("day").dt.month())
    assert rows(first) == [{"day": datetime.date(2024, 1, at), "month": 1} for at in (1, 2)]


def test_groups_and_aggregates(sales):
    of_city = sales.drop_nulls("city").group_by("city").agg(
        nw.col("sold").sum().alias("sold"), nw.len().alias("n"), nw.col("price").max().alias("price")
    )
    assert rows(of_city.sort("city")) == [
        {"city": "Bern", "sold": 0, "n": 1, "price": 3.0},
        {"city": "Oslo", "sold": 7, "n": 2, "price": 2.5},
        {"city": "Rome", "sold": 5, "n": 1, "price": 2.0},
    ]
    whole = sales.select(nw.col("sold").mean().alias("mean"), nw.col("city").n_unique().alias("cities"))
    assert rows(whole) == [{"mean": 4.75, "cities": 4}]


def test_joins_windows_and_missing_values(con, sales):
    lands = nw.from_native(con.create_table("lands", pa.table({"city": ["Oslo", "Rome"], "land": ["Norway", "Italy"]})))
    both = sales.join(lands, on="city", how="inner").select("city", "land", "sold").sort("city", "sold")
    assert [tuple(row.values()) for row in rows(both)] == [("Oslo", "Norway", 3), ("Oslo", "Norway", 4), ("Rome", "Italy", 5)]
    share = sales.drop_nulls().with_columns(of_city=nw.col("sold").sum().over("city"), text=nw.col("city").str.to_uppercase())
    assert [(row["of_city"], row["text"]) for row in rows(share.sort("day"))] == [(5, "ROME"), (7, "OSLO"), (7, "OSLO")]
    filled = sales.with_columns(nw.col("sold").fill_null(0), nw.when(nw.col("price") > 2).then(nw.lit("dear")).alias("kind"))
    assert [(row["sold"], row["kind"]) for row in rows(filled.sort("day"))] == [
        (5, None), (4, "dear"), (3, None), (7, None), (0, "dear")
    ]


def test_what_a_library_writes_for_any_frame(con):
    @nw.narwhalify
    def largest(frame, column):
        return frame.filter(nw.col(column) == nw.col(column).max())

    found = largest(con.create_table("t", pa.table({"a": [1, 3, 2]})), "a")
    assert found.to_pyarrow().to_pylist() == [{"a": 3}]
