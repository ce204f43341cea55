"""The synthetic tables of the pulse, made from row numbers by DuckDB, and the queries over them.

`HITS` has the shapes of the 43 queries of ClickBench (https://github.com/ClickHouse/ClickBench), over page views of our own
with skewed users, long texts and mostly empty phrases. `TASKS` has the shapes of the 10 groupings and 5 joins of the
db-benchmark (https://duckdblabs.github.io/db-benchmark).
"""


def number(v: str) -> str:
    """A number without a visible pattern, not negative, from an expression."""
    return f"(hash({v}) >> 1)::bigint"


def mixed(salt: int, count: int) -> str:
    """A number below `count` from the row number `v`."""
    return f"({number(f'v * 64 + {salt}')} % {count})"


def skewed(salt: int, count: int) -> str:
    """The same, but small more often than large."""
    return f"(pow({mixed(salt, 1000000)} / 1000000.0, 3) * {count})::bigint"


def hits(rows: int) -> str:
    """A query whose result is the table of page views."""
    return f"""
WITH drawn AS (
  SELECT v, {skewed(1, rows // 8)} AS page, {skewed(2, rows // 20)} AS phrase, {mixed(7, 10)} < 8 AS has_no_phrase,
    {mixed(11, 12)} > 0 AS is_desktop, {skewed(12, 90)} AS phone FROM range({rows}) r(v))
SELECT {number("v")} AS watch_id, {skewed(3, 2000)}::int AS counter_id,
  (timestamp '2026-03-01' + to_seconds(v * 2592000 // {rows}))::timestamp AS event_time,
  date '2026-03-01' + (v * 30 // {rows})::int AS event_date,
  {number(skewed(4, rows // 6))} AS user_id, {skewed(5, 5000)}::int AS region_id,
  'https://' || CASE page % 5 WHEN 0 THEN 'shop' WHEN 1 THEN 'news' WHEN 2 THEN 'video' WHEN 3 THEN 'google' ELSE 'mail' END
    || '.example.org/' || (page % 97) || '/page-' || page
    || CASE WHEN page % 3 = 0 THEN '?session=' || (page * 7919 % 100003) || '&from=front' ELSE '' END AS url,
  CASE WHEN {mixed(6, 5)} < 3 THEN '' ELSE 'http://www.' || CASE page % 3 WHEN 0 THEN 'search' WHEN 1 THEN 'portal' ELSE 'blog' END
    || '-' || (page % 1013) || '.example.com/path/' || (page % 20011) END AS referer,
  CASE WHEN page % 11 = 0 THEN 'Google ' ELSE '' END || (page % 30011) || ' - a page about what people look for' AS title,
  CASE WHEN has_no_phrase THEN '' ELSE 'how to find ' || phrase END AS search_phrase,
  CASE WHEN has_no_phrase THEN 0 ELSE {skewed(8, 40)} END::smallint AS search_engine_id,
  CASE WHEN {mixed(9, 50)} > 0 THEN 0 ELSE {mixed(10, 18)} END::smallint AS adv_engine_id,
  CASE WHEN is_desktop THEN 0 ELSE phone END::smallint AS mobile_phone,
  CASE WHEN is_desktop THEN '' ELSE 'model ' || (phone * 7 % 160) END AS mobile_phone_model,
  (320 + {mixed(13, 60)} * 32)::smallint AS resolution_width, ({number(skewed(14, rows // 9))} % 1000000000)::int AS client_ip,
  ({mixed(15, 7)} = 0)::smallint AS is_refresh, ({mixed(16, 11)} = 0)::smallint AS is_link,
  ({mixed(17, 90)} = 0)::smallint AS is_download, ({mixed(18, 13)} = 0)::smallint AS dont_count_hits,
  ({mixed(19, 9)} - 1)::smallint AS traffic_source_id, {number("page")} AS url_hash, {number("page % 20011")} AS referer_hash,
  (200 + {mixed(20, 180)} * 10)::smallint AS window_width, (200 + {mixed(21, 90)} * 10)::smallint AS window_height,
  {mixed(22, 40)}::int AS os, {mixed(23, 70)}::int AS user_agent, 'utm-' || {mixed(24, 9)} AS utm_source,
  {mixed(25, 100000)}::int AS load_time
FROM drawn"""


MARCH = "event_date >= '2026-03-01' AND event_date <= '2026-03-31'"
WIDTHS = ", ".join(f"sum(resolution_width + {n})" for n in range(90))
HITS = {
    "h00": "SELECT count(*) FROM hits",
    "h01": "SELECT count(*) FROM hits WHERE adv_engine_id <> 0",
    "h02": "SELECT sum(adv_engine_id), count(*), avg(resolution_width) FROM hits",
    "h03": "SELECT avg(user_id) FROM hits",
    "h04": "SELECT count(DISTINCT user_id) FROM hits",
    "h05": "SELECT count(DISTINCT search_phrase) FROM hits",
    "h06": "SELECT min(event_date), max(event_date) FROM hits",
    "h07": "SELECT adv_engine_id, count(*) FROM hits WHERE adv_engine_id <> 0 GROUP BY 1 ORDER BY 2 DESC, 1",
    "h08": "SELECT region_id, count(DISTINCT user_id) AS u FROM hits GROUP BY 1 ORDER BY u DESC, 1 LIMIT 10",
    "h09": "SELECT region_id, sum(adv_engine_id), count(*) AS c, avg(resolution_width), count(DISTINCT user_id) FROM hits "
    "GROUP BY 1 ORDER BY c DESC, 1 LIMIT 10",
    "h10": "SELECT mobile_phone_model, count(DISTINCT user_id) AS u FROM hits WHERE mobile_phone_model <> '' GROUP BY 1 "
    "ORDER BY u DESC, 1 LIMIT 10",
    "h11": "SELECT mobile_phone, mobile_phone_model, count(DISTINCT user_id) AS u FROM hits WHERE mobile_phone_model <> '' "
    "GROUP BY 1, 2 ORDER BY u DESC, 1, 2 LIMIT 10",
    "h12": "SELECT search_phrase, count(*) AS c FROM hits WHERE search_phrase <> '' GROUP BY 1 ORDER BY c DESC, 1 LIMIT 10",
    "h13": "SELECT search_phrase, count(DISTINCT user_id) AS u FROM hits WHERE search_phrase <> '' GROUP BY 1 ORDER BY u DESC, 1 "
    "LIMIT 10",
    "h14": "SELECT search_engine_id, search_phrase, count(*) AS c FROM hits WHERE search_phrase <> '' GROUP BY 1, 2 "
    "ORDER BY c DESC, 1, 2 LIMIT 10",
    "h15": "SELECT user_id, count(*) AS c FROM hits GROUP BY 1 ORDER BY c DESC, 1 LIMIT 10",
    "h16": "SELECT user_id, search_phrase, count(*) AS c FROM hits GROUP BY 1, 2 ORDER BY c DESC, 1, 2 LIMIT 10",
    "h17": "SELECT count(*) FROM (SELECT user_id, search_phrase, count(*) FROM hits GROUP BY 1, 2 LIMIT 10) few",
    "h18": "SELECT user_id, extract(minute FROM event_time) AS m, search_phrase, count(*) AS c FROM hits GROUP BY 1, 2, 3 "
    "ORDER BY c DESC, 1, 2, 3 LIMIT 10",
    "h19": "SELECT user_id FROM hits WHERE user_id = 435090932899640449",
    "h20": "SELECT count(*) FROM hits WHERE url LIKE '%google%'",
    "h21": "SELECT search_phrase, min(url), count(*) AS c FROM hits WHERE url LIKE '%google%' AND search_phrase <> '' GROUP BY 1 "
    "ORDER BY c DESC, 1 LIMIT 10",
    "h22": "SELECT search_phrase, min(url), min(title), count(*) AS c, count(DISTINCT user_id) FROM hits WHERE title LIKE '%Google%' "
    "AND url NOT LIKE '%.google.%' AND search_phrase <> '' GROUP BY 1 ORDER BY c DESC, 1 LIMIT 10",
    "h23": "SELECT * FROM hits WHERE url LIKE '%google%' ORDER BY event_time, watch_id LIMIT 10",
    "h24": "SELECT search_phrase FROM hits WHERE search_phrase <> '' ORDER BY event_time, watch_id LIMIT 10",
    "h25": "SELECT search_phrase FROM hits WHERE search_phrase <> '' ORDER BY search_phrase LIMIT 10",
    "h26": "SELECT search_phrase FROM hits WHERE search_phrase <> '' ORDER BY event_time, search_phrase LIMIT 10",
    "h27": "SELECT counter_id, avg(length(url)) AS l, count(*) AS c FROM hits WHERE url <> '' GROUP BY 1 HAVING count(*) > 1000 "
    "ORDER BY l DESC, 1 LIMIT 25",
    "h28": r"SELECT regexp_replace(referer, '^https?://(?:www\.)?([^/]+)/.*$', '\1') AS k, avg(length(referer)) AS l, count(*) AS c, "
    "min(referer) FROM hits WHERE referer <> '' GROUP BY 1 HAVING count(*) > 100 ORDER BY l DESC, 1 LIMIT 25",
    "h29": f"SELECT {WIDTHS} FROM hits",
    "h30": "SELECT search_engine_id, client_ip, count(*) AS c, sum(is_refresh), avg(resolution_width) FROM hits "
    "WHERE search_phrase <> '' GROUP BY 1, 2 ORDER BY c DESC, 1, 2 LIMIT 10",
    "h31": "SELECT watch_id, client_ip, count(*) AS c, sum(is_refresh), avg(resolution_width) FROM hits WHERE search_phrase <> '' "
    "GROUP BY 1, 2 ORDER BY c DESC, 1, 2 LIMIT 10",
    "h32": "SELECT watch_id, client_ip, count(*) AS c, sum(is_refresh), avg(resolution_width) FROM hits GROUP BY 1, 2 "
    "ORDER BY c DESC, 1, 2 LIMIT 10",
    "h33": "SELECT url, count(*) AS c FROM hits GROUP BY 1 ORDER BY c DESC, 1 LIMIT 10",
    "h34": "SELECT 1, url, count(*) AS c FROM hits GROUP BY 1, 2 ORDER BY c DESC, 2 LIMIT 10",
    "h35": "SELECT client_ip, client_ip - 1, client_ip - 2, client_ip - 3, count(*) AS c FROM hits GROUP BY 1, 2, 3, 4 "
    "ORDER BY c DESC, 1 LIMIT 10",
    "h36": f"SELECT url, count(*) AS v FROM hits WHERE counter_id = 5 AND {MARCH} AND dont_count_hits = 0 AND is_refresh = 0 "
    "AND url <> '' GROUP BY 1 ORDER BY v DESC, 1 LIMIT 10",
    "h37": f"SELECT title, count(*) AS v FROM hits WHERE counter_id = 5 AND {MARCH} AND dont_count_hits = 0 AND is_refresh = 0 "
    "AND title <> '' GROUP BY 1 ORDER BY v DESC, 1 LIMIT 10",
    "h38": f"SELECT url, count(*) AS v FROM hits WHERE counter_id = 5 AND {MARCH} AND is_refresh = 0 AND is_link <> 0 "
    "AND is_download = 0 GROUP BY 1 ORDER BY v DESC, 1 LIMIT 10 OFFSET 20",
    "h39": "SELECT traffic_source_id, search_engine_id, adv_engine_id, CASE WHEN search_engine_id = 0 AND adv_engine_id = 0 THEN referer "
    f"ELSE '' END AS src, url AS dst, count(*) AS v FROM hits WHERE counter_id = 5 AND {MARCH} AND is_refresh = 0 "
    "GROUP BY 1, 2, 3, 4, 5 ORDER BY v DESC, 1, 2, 3, 4, 5 LIMIT 10 OFFSET 20",
    "h40": f"SELECT url_hash, event_date, count(*) AS v FROM hits WHERE counter_id = 5 AND {MARCH} AND is_refresh = 0 "
    "AND traffic_source_id IN (-1, 6) GROUP BY 1, 2 ORDER BY v DESC, 1, 2 LIMIT 10 OFFSET 10",
    "h41": f"SELECT window_width, window_height, count(*) AS v FROM hits WHERE counter_id = 5 AND {MARCH} AND is_refresh = 0 "
    "AND dont_count_hits = 0 GROUP BY 1, 2 ORDER BY v DESC, 1, 2 LIMIT 10 OFFSET 20",
    "h42": "SELECT date_trunc('minute', event_time) AS m, count(*) AS v FROM hits WHERE counter_id = 5 AND event_date >= '2026-03-14' "
    "AND event_date <= '2026-03-15' AND is_refresh = 0 AND dont_count_hits = 0 GROUP BY 1 ORDER BY 1 LIMIT 10 OFFSET 20",
}


def groups(rows: int) -> str:
    """A query whose result is the table of the groupings."""
    return f"""
SELECT 'id' || lpad(({mixed(1, 100)} + 1)::varchar, 3, '0') AS id1, 'id' || lpad(({mixed(2, 100)} + 1)::varchar, 3, '0') AS id2,
  'id' || lpad(({mixed(3, rows // 100)} + 1)::varchar, 10, '0') AS id3, ({mixed(4, 100)} + 1)::int AS id4, ({mixed(5, 100)} + 1)::int AS id5,
  ({mixed(6, rows // 100)} + 1)::int AS id6, ({mixed(7, 5)} + 1)::int AS v1, ({mixed(8, 15)} + 1)::int AS v2,
  round({mixed(9, 100000000)} / 1000000.0, 6)::double AS v3 FROM range({rows}) r(v)"""


def left(rows: int) -> str:
    """A query whose result is the left table of the joins."""
    return f"""
SELECT ({mixed(1, 11)} + 1)::int AS id1, ({mixed(2, rows // 1000 * 11 // 10)} + 1)::int AS id2,
  ({mixed(3, rows * 11 // 10)} + 1)::int AS id3, 'id' || ({mixed(2, rows // 1000 * 11 // 10)} + 1) AS id5,
  'id' || ({mixed(3, rows * 11 // 10)} + 1) AS id6, {mixed(9, 100000000)} / 1000000.0::double AS v1 FROM range({rows}) r(v)"""


def right(rows: int) -> str:
    """A query whose result is a right table of the joins, with unique keys."""
    return f"""
SELECT (v + 1)::int AS id1, (v + 1)::int AS id2, (v + 1)::int AS id3, 'id' || (v + 1) AS id5,
  {mixed(10, 100000000)} / 1000000.0::double AS v2 FROM range({rows}) r(v)"""


#: Checksums, as in the db-benchmark, keep what is transferred small.
TASKS = {
    "g01": "SELECT count(*), sum(v1) FROM (SELECT id1, sum(v1) AS v1 FROM groups GROUP BY id1) a",
    "g02": "SELECT count(*), sum(v1) FROM (SELECT id1, id2, sum(v1) AS v1 FROM groups GROUP BY id1, id2) a",
    "g03": "SELECT count(*), sum(v1), sum(v3) FROM (SELECT id3, sum(v1) AS v1, avg(v3) AS v3 FROM groups GROUP BY id3) a",
    "g04": "SELECT id4, avg(v1), avg(v2), avg(v3) FROM groups GROUP BY id4 ORDER BY 1",
    "g05": "SELECT count(*), sum(v1), sum(v2), sum(v3) FROM (SELECT id6, sum(v1) AS v1, sum(v2) AS v2, sum(v3) AS v3 FROM groups "
    "GROUP BY id6) a",
    "g06": "SELECT count(*), sum(m), sum(s) FROM (SELECT id4, id5, median(v3) AS m, stddev(v3) AS s FROM groups GROUP BY id4, id5) a",
    "g07": "SELECT count(*), sum(d) FROM (SELECT id3, max(v1) - min(v2) AS d FROM groups GROUP BY id3) a",
    "g08": "SELECT count(*), sum(v3) FROM (SELECT id6, v3, row_number() OVER (PARTITION BY id6 ORDER BY v3 DESC) AS r FROM groups) a "
    "WHERE r <= 2",
    "g09": "SELECT count(*), sum(r2) FROM (SELECT id2, id4, pow(corr(v1, v2), 2) AS r2 FROM groups GROUP BY id2, id4) a",
    "g10": "SELECT count(*), sum(v3), sum(c) FROM (SELECT id1, id2, id3, id4, id5, id6, sum(v3) AS v3, count(*) AS c FROM groups "
    "GROUP BY 1, 2, 3, 4, 5, 6) a",
    "j01": "SELECT count(*), sum(v1), sum(v2) FROM (SELECT v1, v2 FROM left_rows l JOIN small s USING (id1)) a",
    "j02": "SELECT count(*), sum(v1), sum(v2) FROM (SELECT v1, v2 FROM left_rows l JOIN medium m USING (id2)) a",
    "j03": "SELECT count(*), sum(v1), sum(v2) FROM (SELECT v1, v2 FROM left_rows l LEFT JOIN medium m USING (id2)) a",
    "j04": "SELECT count(*), sum(v1), sum(v2) FROM (SELECT v1, v2 FROM left_rows l JOIN medium m USING (id5)) a",
    "j05": "SELECT count(*), sum(v1), sum(v2) FROM (SELECT v1, v2 FROM left_rows l JOIN big b USING (id3)) a",
}


#: Statements of every day that no other set has, on the tables of TPC-H: windows, grouping sets, dates, texts, lists, recursion.
EVERYDAY = {
    "share of all": "SELECT count(x) FROM (SELECT l_extendedprice / sum(l_extendedprice) OVER () AS x FROM lineitem) a",
    "seven days": "SELECT sum(s) FROM (SELECT sum(l_quantity) OVER (PARTITION BY l_suppkey ORDER BY l_shipdate "
    "RANGE BETWEEN INTERVAL 7 DAYS PRECEDING AND CURRENT ROW) AS s FROM lineitem) a",
    "moving sum": "SELECT sum(s) FROM (SELECT sum(l_quantity) OVER (ORDER BY l_orderkey, l_linenumber ROWS BETWEEN 10 PRECEDING AND "
    "CURRENT ROW) AS s FROM lineitem) a",
    "ntile": "SELECT sum(n) FROM (SELECT ntile(10) OVER (PARTITION BY o_orderpriority ORDER BY o_totalprice) AS n FROM orders) a",
    "distinct by partition": "SELECT sum(n) FROM (SELECT count(DISTINCT o_orderstatus) OVER (PARTITION BY o_custkey) AS n FROM orders) a",
    "qualify": "SELECT count(*) FROM (SELECT o_orderkey FROM orders QUALIFY row_number() OVER (PARTITION BY o_custkey ORDER BY o_totalprice "
    "DESC) = 1) a",
    "far offset": "SELECT o_orderkey, o_totalprice FROM orders ORDER BY o_totalprice DESC, o_orderkey LIMIT 5 OFFSET 700000",
    "rollup": "SELECT l_returnflag, l_linestatus, l_shipmode, sum(l_quantity) FROM lineitem GROUP BY ROLLUP (1, 2, 3) ORDER BY ALL LIMIT 9",
    "cube": "SELECT count(*), sum(q) FROM (SELECT sum(l_quantity) AS q FROM lineitem GROUP BY CUBE (l_returnflag, l_linestatus, l_shipmode, "
    "year(l_shipdate))) a",
    "histogram": "SELECT array_to_string(map_keys(h), ',') FROM (SELECT histogram(l_shipmode) AS h FROM lineitem) a",
    "mode": "SELECT mode(l_linenumber) FROM lineitem",
    "three greatest": "SELECT max(l_orderkey, 3) FROM lineitem",
    "any value": "SELECT count(a) FROM (SELECT any_value(o_comment) AS a FROM orders GROUP BY o_custkey) a",
    "year and month": "SELECT year(l_shipdate), month(l_shipdate), count(*) FROM lineitem GROUP BY ALL ORDER BY ALL LIMIT 9",
    "days between": "SELECT sum(date_diff('day', l_shipdate, l_receiptdate)), avg(l_receiptdate - l_shipdate) FROM lineitem",
    "strftime": "SELECT strftime(o_orderdate, '%Y-%m') AS m, count(*) FROM orders GROUP BY 1 ORDER BY 1 LIMIT 9",
    "case": "SELECT sum(CASE WHEN l_quantity < 10 THEN 1 WHEN l_quantity < 20 THEN 2 WHEN l_shipmode = 'AIR' THEN 3 ELSE 4 END) FROM lineitem",
    "words": "SELECT w, count(*) FROM (SELECT unnest(string_split(o_comment, ' ')) AS w FROM orders) a GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 9",
    "unnest": "SELECT sum(x) FROM (SELECT unnest([o_orderkey, o_custkey]) AS x FROM orders) a",
    "regular expression": "SELECT count(*) FROM orders WHERE regexp_matches(o_comment, 'qu[aeiou]ck.*fox')",
    "text of a decimal": "SELECT max(o_totalprice::VARCHAR) FROM orders",
    "self join": "SELECT count(*) FROM orders a JOIN orders b ON a.o_custkey = b.o_custkey AND a.o_orderkey < b.o_orderkey",
    "unequal join": "SELECT count(*) FROM supplier a JOIN supplier b ON a.s_acctbal < b.s_acctbal",
    "asof join": "SELECT count(*) FROM orders a ASOF JOIN orders b ON a.o_custkey = b.o_custkey AND a.o_orderdate > b.o_orderdate",
    "steps": "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 10000) SELECT sum(n) FROM t",
}


def tables(rows: int) -> dict[str, str]:
    """The queries that make the tables, by name."""
    return {
        "hits": hits(rows),
        "groups": groups(rows),
        "left_rows": left(rows),
        "small": right(10),
        "medium": right(rows // 1000),
        "big": right(rows),
    }
