"""Expressions give on Freestone what they give on DuckDB."""

import datetime
import decimal
import math
import random

import ibis
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from ibis import _

ROWS = 400

#: Expressions over the tables ``t`` and ``u``, by topic.
EXPRESSIONS = {
    "numbers": """
t.i + 1
t.i - t.j
t.i * 2
t.i / 3
t.i // 3
t.i % 3
-t.i
t.i ** 2
t.j / t.f
t.f.round()
t.f.round(1)
t.f.ceil()
t.f.floor()
t.f.abs().sqrt()
(t.f.abs() + 1).ln()
(t.f.abs() + 1).log10()
(t.f.abs() + 1).log2()
(t.f.abs() + 1).log(3)
(t.f / 100).exp()
t.f.sign()
t.f.sin()
t.f.cos()
t.f.tan()
(t.f / 1000).asin()
(t.f / 1000).acos()
t.f.atan()
t.f.atan2(t.i)
t.f.radians()
t.f.degrees()
t.f.clip(lower=0, upper=10)
t.i.clip(upper=5)
t.f.isnan()
t.f.isinf()
t.i & 3
t.i | 3
t.i ^ 3
t.i.abs() << 2
t.i >> 1
~t.i
t.n + 1
(t.n * t.n).cast("float64")
t.n / 3
t.n.round(1)
t.n.cast("float64")
t.f.cast("int64")
t.i.cast("string")
t.i.cast("float64")
t.b.cast("int64")
t.i.between(-3, 3)
t.i.isin([1, 2, 3])
t.i.notin([1, 2, 3])
t.i.nullif(1)
t.i.fill_null(0)
t.i.isnull()
t.i.notnull()
ibis.coalesce(t.i, t.j, 0)
ibis.greatest(t.i, t.j)
ibis.least(t.i, t.j)
(t.i > 0).ifelse("plus", "minus")
ibis.cases((t.i < 0, "a"), (t.i < 5, "b"), else_="c")
t.i.cases((1, "one"), (2, "two"), else_="many")
t.f.bucket([-50, 0, 50])
t.i.identical_to(t.j)
""",
    "texts": """
t.s.upper()
t.s.lower()
t.s.capitalize()
t.s.reverse()
t.s.length()
t.s.strip()
t.s.lstrip()
t.s.rstrip()
t.s.left(2)
t.s.right(2)
t.s.substr(1, 2)
t.s[1:3]
t.s[0]
t.s.replace("a", "b")
t.s.find("a")
t.s.contains("an")
t.s.startswith("b")
t.s.endswith("a")
t.s.like("b%")
t.s.ilike("B%")
t.s.re_search("[aeiou]n")
t.s.re_replace("[aeiou]", "_")
t.s.re_extract("([aeiou])n", 1)
t.s.lpad(8, "*")
t.s.rpad(8, "*")
t.s.repeat(2)
t.s.split("a")
t.s.concat("-", t.s)
t.s + "x"
t.s.translate("ab", "xy")
t.s.ascii_str()
t.s.levenshtein("banana")
t.s.hexdigest("md5")
t.s.nullif("apple")
t.s.cast("string").fill_null("none")
t.i.cast("string").cast("int64")
""",
    "times": """
t.d.year()
t.d.month()
t.d.day()
t.d.quarter()
t.d.week_of_year()
t.d.day_of_year()
t.d.day_of_week.index()
t.d.day_of_week.full_name()
t.d + ibis.interval(days=3)
t.d - ibis.interval(months=1)
t.d.truncate("M")
t.d.truncate("Y")
t.d.cast("timestamp")
t.d.cast("string")
t.d.strftime("%Y/%m/%d")
t.at.year()
t.at.hour()
t.at.minute()
t.at.second()
t.at.millisecond()
t.at.truncate("s").epoch_seconds()
t.at.truncate("h")
t.at.truncate("D")
t.at.truncate("W")
t.at.date()
t.at.time()
t.at + ibis.interval(hours=5)
t.at - ibis.interval(weeks=2)
t.at.strftime("%Y-%m-%d %H:%M")
t.at.cast("date")
t.at.bucket(hours=6)
t.at.delta(ibis.timestamp("2020-01-01"), unit="day")
t.at > ibis.timestamp("2020-06-01")
t.at.between("2020-02-01", "2020-09-01")
ibis.date(t.d.year(), 1, 1)
t.i.fill_null(0).abs().as_interval("D") + t.d
t.d.cast("string").as_date("%Y-%m-%d")
""",
    "nested": """
t.a.length()
t.a[0]
t.a[-1]
t.a[1:]
t.a.contains(2)
t.a.concat(t.a)
t.a.sort()
t.a.index(2)
t.a.map(lambda x: x + 1)
t.a.filter(lambda x: x > 1)
t.a.sums()
t.a.maxs()
t.a.means()
t.a.repeat(2)
t.a.map(lambda x: x.cast("string")).join("-")
t.r["x"]
t.r.y
ibis.struct({"p": t.i, "q": t.s})
ibis.array([t.i, t.j])
ibis.map(ibis.array(["k"]), ibis.array([t.j]))["k"]
t.select("id", x=t.a.unnest())
t.select("id", "r").unpack("r")
t.s.split("a").length()
""",
    "aggregates": """
t.count()
t.i.sum()
t.j.sum()
t.i.mean()
t.n.sum()
t.n.max()
t.f.min()
t.f.max()
t.f.std()
t.f.var(how="pop")
t.f.median()
t.f.quantile(0.25)
t.i.nunique()
t.s.min()
t.s.max()
t.b.any()
t.b.all()
t.b.sum()
t.i.sum(where=t.b)
t.count(where=t.j > 3)
t.i.corr(t.f, how="pop")
t.i.cov(t.f)
t.i.bit_xor()
t.j.mode()
t.nunique()
t.d.min()
t.at.max()
t.f.argmax(t.id)
t.s.argmin(t.id)
t.s.group_concat(order_by=t.id)
t.i.collect(order_by=t.id)
t.s.first(order_by=t.id)
t.s.last(order_by=t.id)
t.group_by("k").agg(n=_.count(), total=_.j.sum(), top=_.f.max())
t.group_by("k", "b").agg(n=_.i.count())
t.group_by(half=t.j // 2).agg(m=_.f.mean())
t.group_by("k").having(_.count() > 95).agg(n=_.count())
t.group_by("k").agg(d=_.s.nunique(), any=_.b.any())
t.agg(a=_.i.sum(), b=_.f.mean(), c=_.s.max())
t.s.value_counts()
t.distinct().count()
t.select("k", "b").distinct()
t.k.topk(2)
t.pivot_wider(id_cols="j", names_from="k", values_from="id", values_agg="count", names=["a", "b", "c", "d"])
""",
    "windows": """
t.select("id", x=ibis.row_number().over(order_by=_.id))
t.select("id", x=ibis.rank().over(group_by=_.k, order_by=_.j))
t.select("id", x=ibis.dense_rank().over(group_by=_.k, order_by=_.j))
t.select("id", x=ibis.percent_rank().over(order_by=_.id))
t.select("id", x=ibis.cume_dist().over(order_by=_.id))
t.select("id", x=ibis.ntile(4).over(order_by=_.id))
t.select("id", x=_.j.lag().over(order_by=_.id))
t.select("id", x=_.j.lead(2, default=0).over(order_by=_.id))
t.select("id", x=_.j.first().over(group_by=_.k, order_by=_.id))
t.select("id", x=_.j.last().over(group_by=_.k, order_by=_.id))
t.select("id", x=_.j.nth(1).over(group_by=_.k, order_by=_.id))
t.select("id", x=_.j.cumsum(order_by=_.id))
t.select("id", x=_.j.cummax(order_by=_.id, group_by=_.k))
t.select("id", x=_.j.sum().over(ibis.window(preceding=2, following=1, order_by=_.id)))
t.select("id", x=_.f.mean().over(ibis.trailing_window(3, order_by=_.id, group_by=_.k)))
t.select("id", x=_.j.sum().over(ibis.range_window(preceding=5, order_by=_.id)))
t.select("id", x=_.j - _.j.mean().over(group_by=_.k))
t.filter(ibis.row_number().over(group_by=_.k, order_by=_.id) == 0)
t.select("id", x=_.at.max().over(group_by=_.k))
""",
    "tables": """
t.filter(t.i > 0, t.b)
t.filter(t.s.isnull())
t.select("id", double=t.i * 2)
t.mutate(z=t.i + t.j).filter(_.z > 3)
t.drop("a", "r")
t.rename(identity="id")
t.relocate("s", before="id").drop("a", "r")
t.order_by(ibis.desc("id")).limit(5)
t.order_by("s", "id").select("s", "id")
t.order_by(ibis.desc("i"), "id").select("i", "id").limit(20)
t.order_by("id").limit(5, offset=3)
t.join(u, "k")
t.left_join(u, "k").select("id", "name")
t.right_join(u, "k").select("id", "name")
t.outer_join(u, "k").select("id", "name")
t.semi_join(u, "k").select("id")
t.anti_join(u, "k").select("id")
t.cross_join(u).count()
t.join(u, [t.k == u.k, t.j > u.weight]).select("id", "name")
t.asof_join(u.select("weight", "name"), t.j >= u.weight).select("id", "name")
t.select("k").union(u.select("k"))
t.select("k").union(u.select("k"), distinct=True)
t.select("k").intersect(u.select("k"))
t.select("k").difference(u.select("k"))
t.filter(t.k.isin(u.k)).count()
t.filter(t.f > t.f.mean()).select("id")
t.filter((u.k == t.k).any()).count()
t.select("id", x=t.j.sum())
t.fill_null({"s": "none"}).select("s")
t.drop_null(["i", "s"]).count()
t.pivot_longer(["i", "j"], names_to="name", values_to="value").select("id", "name", "value")
t.select("i", "j").describe().select("name", "count", "nulls")
t.info().select("name", "type", "nulls")
t.view().join(t, "id").count()
t.group_by("k").agg(n=_.count()).join(u, "k").order_by("k")
t.limit(0)
ibis.memtable({"k": ["a", "b"], "v": [1, 2]}).join(t, "k").count()
""",
}

CASES = [line for text in EXPRESSIONS.values() for line in text.strip().splitlines()]


def rows():
    """A table with NULL in most columns, and one that its column ``k`` refers to."""
    draw = random.Random(7)

    def some(value):
        return None if draw.random() < 0.1 else value

    def column(make, kind):
        return pa.array([some(make(i)) for i in range(ROWS)], kind)

    words = ["apple", "banana", "cherry", " date ", "elder", "Fig", ""]
    day, instant = datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 0, 0, 0, 123000)
    t = {
        "id": pa.array(range(ROWS), pa.int64()),
        "k": pa.array([draw.choice("abcd") for _ in range(ROWS)]),
        "i": column(lambda i: draw.randrange(-10, 11), pa.int32()),
        "j": pa.array([draw.randrange(10) for _ in range(ROWS)], pa.int64()),
        "f": column(lambda i: draw.uniform(-100, 100), pa.float64()),
        "n": column(lambda i: decimal.Decimal(draw.randrange(-9999, 9999)) / 100, pa.decimal128(10, 2)),
        "b": column(lambda i: draw.random() < 0.5, pa.bool_()),
        "s": column(lambda i: draw.choice(words), pa.string()),
        "d": column(lambda i: day + datetime.timedelta(days=draw.randrange(400)), pa.date32()),
        "at": column(lambda i: instant + datetime.timedelta(minutes=draw.randrange(500_000)), pa.timestamp("us")),
        "a": column(lambda i: [draw.randrange(4) for _ in range(draw.randrange(1, 4))], pa.list_(pa.int64())),
        "r": column(lambda i: {"x": draw.randrange(5), "y": draw.choice(words)}, pa.struct({"x": pa.int64(), "y": pa.string()})),
    }
    u = {"k": ["a", "b", "c", "e"], "name": ["Ann", "Bob", "Cleo", "Eve"], "weight": [1, 3, 5, 7]}
    return {"t": pa.table(t), "u": pa.table(u)}


@pytest.fixture(scope="module")
def namespaces(tmp_path_factory):
    """The names in the expressions, for Freestone and for DuckDB."""
    folder = tmp_path_factory.mktemp("tables")
    for name, table in rows().items():
        parquet.write_table(table, folder / f"{name}.parquet")
    connections = [ibis.freestone.connect(), ibis.duckdb.connect()]
    yield [
        {"_": _, "ibis": ibis, "con": con, **{name: con.read_parquet(folder / f"{name}.parquet", table_name=name) for name in ("t", "u")}}
        for con in connections
    ]
    for con in connections:
        con.disconnect()


@pytest.mark.parametrize("text", CASES)
def test_as_duckdb(namespaces, text):
    ours, theirs = (result(text, names) for names in namespaces)
    assert len(ours) == len(theirs)
    for left, right in zip(ours, theirs):
        assert is_same(left, right), (left, right)


def test_number_of_cases():
    assert len(CASES) == len(set(CASES)) >= 150


def result(text, names):
    """The rows of an expression, sorted unless the expression sorts them."""
    expression = eval(text, names)
    if isinstance(expression, ibis.expr.types.Column):
        # A column of ``t`` is shown with the key, so that rows can be compared in any order.
        expression = names["t"].select("id", value=expression)
    found = names["con"].to_pyarrow(expression)
    found = found.to_pylist() if isinstance(found, pa.Table) else [found.as_py()]
    return found if "order_by(" in text and ".limit(" in text else sorted(found, key=repr)


def is_same(left, right):
    """Whether two values are equal, floats up to rounding."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(is_same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(is_same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return left == right or math.isnan(left) and math.isnan(right) or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
    return left == right
