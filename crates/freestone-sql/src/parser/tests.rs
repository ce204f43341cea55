//! Forms of the dialect, each with what it prints. Everything printed is parsed to the same tree again.

use crate::{ErrorCode, parse_expression, parse_statement, parse_type};

/// Checks how a statement is printed. `=` means as it is written.
fn check(cases: &[(&str, &str)]) {
    for (sql, expected) in cases {
        let expected = if *expected == "=" { sql } else { expected };
        let tree = parse_statement(sql).unwrap_or_else(|error| panic!("{}", error.render(sql)));
        let printed = tree.to_string();
        assert_eq!(printed, *expected, "{sql}");
        assert_eq!(parse_statement(&printed).as_ref(), Ok(&tree), "{sql}");
    }
}

fn check_expressions(cases: &[(&str, &str)]) {
    for (sql, expected) in cases {
        let expected = if *expected == "=" { sql } else { expected };
        let tree = parse_expression(sql).unwrap_or_else(|error| panic!("{}", error.render(sql)));
        let printed = tree.to_string();
        assert_eq!(printed, *expected, "{sql}");
        assert_eq!(parse_expression(&printed).as_ref(), Ok(&tree), "{sql}");
    }
}

/// Checks the message of an error, with its place.
fn check_errors(cases: &[(&str, &str)]) {
    for (sql, expected) in cases {
        let error = parse_statement(sql).expect_err(sql);
        let rendered = error.render(sql);
        assert!(rendered.starts_with(expected), "{sql}\n{rendered}\nexpected: {expected}");
    }
}

/// An expression with parentheses around each operator.
fn nested(sql: &str) -> String {
    use crate::tree::{Expr, ExprKind};
    fn show(expr: &Expr) -> String {
        match &expr.kind {
            ExprKind::Chain { first, rest } => rest
                .iter()
                .fold(show(first), |left, link| format!("({left} {} {})", link.operator.text(), show(&link.operand))),
            ExprKind::Unary { operator, operand } => format!("({operator:?} {})", show(operand)),
            ExprKind::Is { operand, .. } => format!("({} IN)", show(operand)),
            ExprKind::Like { operand, pattern, .. } => format!("({} L {})", show(operand), show(pattern)),
            ExprKind::Between { operand, low, high, .. } => {
                format!("({} B {} {})", show(operand), show(low), show(high))
            }
            ExprKind::Cast { operand, data_type, .. } => format!("({} :: {data_type})", show(operand)),
            ExprKind::AtTimeZone { operand, zone } => format!("({} AT {})", show(operand), show(zone)),
            ExprKind::Collate { operand, collation } => format!("({} C {collation})", show(operand)),
            _ => expr.to_string(),
        }
    }
    show(&parse_expression(sql).unwrap_or_else(|error| panic!("{}", error.render(sql))))
}

#[test]
fn operators_bind_as_in_postgres() {
    for (sql, expected) in [
        ("a OR b AND c", "(a OR (b AND c))"),
        ("NOT a = b AND c", "((Not (a = b)) AND c)"),
        ("a IS DISTINCT FROM b AND c", "((a IS DISTINCT FROM b) AND c)"),
        ("a IS NOT DISTINCT FROM b = c OR d", "((a IS NOT DISTINCT FROM (b = c)) OR d)"),
        ("-a ^ b * c", "(((Minus a) ^ b) * c)"),
        ("a ^ b ^ c", "((a ^ b) ^ c)"),
        ("a ** -b", "(a ^ (Minus b))"),
        ("-a::INT", "(Minus (a :: INT))"),
        ("a + b | c << d - e", "(((a + b) | c) << (d - e))"),
        ("a # b & c", "((a # b) & c)"),
        ("a#b", "(a # b)"),
        ("a || b + c", "(a || (b + c))"),
        ("a = b LIKE c || d", "(a = (b L (c || d)))"),
        ("a BETWEEN b AND c = d", "((a B b c) = d)"),
        ("a BETWEEN b + 1 AND c - 1 AND d", "((a B (b + 1) (c - 1)) AND d)"),
        ("a = b IS NULL", "((a = b) IN)"),
        ("a ~ b = c", "((a ~ b) = c)"),
        ("a // b - c % d", "((a // b) - (c % d))"),
        ("a -> 'b' = c", "((a -> 'b') = c)"),
        ("a + b AT TIME ZONE c", "(a + (b AT c))"),
        ("-a COLLATE c", "((Minus a) C c)"),
        ("a < b AND c > d", "((a < b) AND (c > d))"),
        ("~a + b", "(BitNot (a + b))"),
        ("a @> b", "(a @> b)"),
        ("1_000_000 + 1_0.5_0", "(1_000_000 + 1_0.5_0)"),
        ("a OPERATOR(pg_catalog.~) b COLLATE pg_catalog.default", "(a ~ (b C pg_catalog.default))"),
    ] {
        assert_eq!(nested(sql), expected, "{sql}");
    }
}

#[test]
fn parentheses_are_printed_as_written_and_where_needed() {
    check_expressions(&[
        ("((a + b)) * c", "="),
        ("(a * b) + c", "="),
        ("a - (b - c)", "="),
        ("(a - b) - c", "="),
        ("(a = b) = c", "="),
        ("NOT (a AND b)", "="),
        ("(NOT a) = b", "="),
        ("- - a", "- -a"),
        ("-(a + b)", "="),
        ("a = (NOT b)", "="),
        ("(a IS NULL) IS NULL", "="),
        ("(-1)::INT", "="),
        ("-1::INT", "="),
        ("(a).b", "="),
        ("(1).abs()", "="),
        ("(a::INT[])[1]", "="),
        ("a::INT[][1]", "="),
        ("(a::s).b", "="),
        ("(SELECT 1) + 1", "="),
        ("((SELECT 1))", "(SELECT 1)"),
        ("((SELECT 1) UNION SELECT 2)", "(SELECT 1 UNION SELECT 2)"),
        ("((SELECT 1 LIMIT 1) UNION SELECT 2)", "="),
        ("~(~a)", "="),
        ("(a, b) = (c, d)", "="),
        ("ROW(a)", "="),
        ("ROW(a, b)", "(a, b)"),
    ]);
}

#[test]
fn forms_of_expressions() {
    check_expressions(&[
        ("[x * 2 FOR x IN [1, 2] IF x > 1]", "="),
        ("[x FOR x, i IN l]", "="),
        ("{'a': 1, b: [2]}", "="),
        ("map {'a': 1}", "MAP {'a': 1}"),
        ("array[1, 2]", "[1, 2]"),
        ("ARRAY(SELECT a FROM t ORDER BY a)", "="),
        ("l[1:2]", "="),
        ("l[:2]", "="),
        ("l[2:]", "="),
        ("l[:]", "="),
        ("l[1:-:2]", "="),
        ("l[-1]", "="),
        ("'abc'.upper().concat('x')", "="),
        ("t.a.upper()", "="),
        ("f(a, b := 1, c => 2)", "f(a, b := 1, c := 2)"),
        ("list_transform(l, x -> x + 1)", "list_transform(l, lambda x: x + 1)"),
        ("list_reduce(l, (x, y) -> x + y)", "list_reduce(l, lambda x, y: x + y)"),
        ("list_transform(l, lambda x, i: x + i)", "="),
        ("f(j -> 'a')", "="),
        ("COLUMNS(* EXCLUDE (a)) + 1", "="),
        ("COLUMNS(t.*)", "="),
        ("coalesce(*COLUMNS(*))", "="),
        ("[1, *COLUMNS('a.*')]", "="),
        ("a * columns", "="),
        ("max(COLUMNS('a.*'))", "="),
        ("COLUMNS(lambda c: c LIKE 'a%')", "="),
        ("count(*)", "="),
        ("count(DISTINCT a)", "="),
        ("string_agg(a, ',' ORDER BY b DESC NULLS LAST)", "="),
        ("sum(a) FILTER (b > 1) OVER w", "sum(a) FILTER (WHERE b > 1) OVER w"),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY a)", "="),
        ("lead(a IGNORE NULLS) OVER (ORDER BY b)", "lead(a) IGNORE NULLS OVER (ORDER BY b)"),
        (
            "sum(a) OVER (w PARTITION BY b ORDER BY c ROWS BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE TIES)",
            "=",
        ),
        ("sum(a) OVER (ORDER BY b RANGE INTERVAL '1' DAY PRECEDING)", "="),
        ("sum(a) OVER ()", "="),
        ("CASE WHEN a THEN b ELSE c END", "="),
        ("CASE a WHEN 1 THEN 'x' END", "="),
        ("CAST(a AS DOUBLE PRECISION)", "CAST(a AS DOUBLE)"),
        ("try_cast(a AS int unsigned)", "TRY_CAST(a AS UINTEGER)"),
        ("DATE '2024-01-01'", "="),
        ("TIMESTAMP(3) WITH TIME ZONE '2024-01-01'", "TIMESTAMPTZ(3) '2024-01-01'"),
        ("INTERVAL '1-2' YEAR TO MONTH", "="),
        ("INTERVAL (a + 1) days", "INTERVAL (a + 1) DAY"),
        ("INTERVAL 3 DAY", "="),
        ("INTERVAL '1 day'", "="),
        ("extract(year FROM d)", "EXTRACT(YEAR FROM d)"),
        ("EXTRACT('epoch' FROM d)", "EXTRACT(EPOCH FROM d)"),
        ("position('a' IN b)", "POSITION('a' IN b)"),
        ("substring(a FROM 2 FOR 3)", "SUBSTRING(a FROM 2 FOR 3)"),
        ("substring(a, 2, 3)", "="),
        ("trim(LEADING 'x' FROM a)", "TRIM(LEADING 'x' FROM a)"),
        ("trim('x' FROM a)", "TRIM(BOTH 'x' FROM a)"),
        ("trim(a, 'x')", "="),
        ("overlay(a PLACING b FROM 1 FOR 2)", "OVERLAY(a PLACING b FROM 1 FOR 2)"),
        ("a IN (1, 2)", "="),
        ("a NOT IN (SELECT 1)", "="),
        ("a IN l", "="),
        ("1 IN [1, 2]", "="),
        ("a = ANY (l)", "a = ANY(l)"),
        ("a <> ALL (SELECT 1)", "a <> ALL(SELECT 1)"),
        ("a = SOME (l)", "a = ANY(l)"),
        ("EXISTS (FROM t)", "EXISTS (SELECT * FROM t)"),
        ("a NOT LIKE 'x' ESCAPE '/'", "="),
        ("a ILIKE b", "="),
        ("a SIMILAR TO b", "="),
        ("a GLOB '*'", "="),
        ("a NOT BETWEEN SYMMETRIC 1 AND 2", "="),
        ("a COLLATE NOCASE.NOACCENT = 'x'", "a COLLATE nocase.noaccent = 'x'"),
        ("a IS NOT TRUE", "="),
        ("a ISNULL OR b NOTNULL", "a IS NULL OR b IS NOT NULL"),
        ("$1 + $2", "="),
        ("$name", "="),
        ("?", "="),
        ("#1 + #2", "="),
        ("current_date - 1", "="),
        ("current_date()", "="),
        ("\"A b\".\"c\"\"d\"", "="),
        ("E'a\\tb'", "'a\tb'"),
        ("X'1F' || B'01'", "="),
        ("grouping(a)", "="),
        ("left('abc', 2)", "="),
        ("natural + 1", "="),
        ("@ -a + b", "abs(-a + b)"),
        ("|/ a || b", "sqrt(a) || b"),
        ("||/ a = 3", "cbrt(a) = 3"),
        ("a||/*b*/c", "a || c"),
        ("'a'\n  'b''c'\r\n'd'", "'ab''cd'"),
        ("E'a\\n'\n'b'", "'a\nb'"),
        ("concat(VARIADIC a)", "array_to_string(a, '')"),
        ("concat_ws(',', VARIADIC [1, 2])", "array_to_string([1, 2], ',')"),
        ("num_nulls(VARIADIC a)", "freestone_nulls_of_list(a)"),
        ("substring(a SIMILAR b ESCAPE '#')", "substring(a, b, '#')"),
        ("string_agg(a, b ORDER BY c USING >, d USING <)", "string_agg(a, b ORDER BY c DESC, d ASC)"),
    ]);
}

#[test]
fn types() {
    for (sql, expected) in [
        ("int", "INT"),
        ("decimal(10, 2)", "DECIMAL(10,2)"),
        ("character varying(3)", "VARCHAR(3)"),
        ("timestamp with time zone", "TIMESTAMPTZ"),
        ("timestamp(3) without time zone", "TIMESTAMP(3)"),
        ("struct(a int, \"B\" map(varchar, int[]))[3]", "STRUCT(a INT, \"B\" MAP(VARCHAR, INT[]))[3]"),
        ("list(int)", "INT[]"),
        ("int array[3]", "INT[3]"),
        ("row(a int)", "STRUCT(a INT)"),
        ("enum('a', 'b')", "ENUM('a', 'b')"),
        ("s.mood", "S.MOOD"),
        ("tinyint unsigned", "UTINYINT"),
    ] {
        let tree = parse_type(sql).expect(sql);
        assert_eq!(tree.to_string(), expected);
        assert_eq!(parse_type(expected).as_ref(), Ok(&tree));
    }
}

#[test]
fn queries() {
    check(&[
        ("FROM t", "SELECT * FROM t"),
        ("from t select a where b", "SELECT a FROM t WHERE b"),
        ("SELECT a, b, FROM t", "SELECT a, b FROM t"),
        ("SELECT total: a + b, c d FROM t", "SELECT a + b AS total, c AS d FROM t"),
        ("SELECT * EXCLUDE (a) REPLACE (b / 10 AS b) RENAME (c AS d) FROM t", "="),
        ("SELECT * EXCLUDE a, t.* LIKE 'x%' FROM t", "SELECT * EXCLUDE (a), t.* LIKE 'x%' FROM t"),
        ("SELECT DISTINCT ON (a) a, b FROM t", "="),
        ("SELECT a FROM t GROUP BY ALL ORDER BY ALL DESC NULLS LAST", "="),
        (
            "SELECT a FROM t GROUP BY ROLLUP (a, b), CUBE (c), GROUPING SETS ((a), (), ROLLUP (d))",
            "SELECT a FROM t GROUP BY ROLLUP (a, b), CUBE (c), GROUPING SETS ((a), (), ROLLUP (d))",
        ),
        (
            "SELECT a FROM t HAVING b WINDOW w AS (ORDER BY a) QUALIFY c USING SAMPLE 10%",
            "SELECT a FROM t HAVING b WINDOW w AS (ORDER BY a) QUALIFY c USING SAMPLE 10 PERCENT",
        ),
        ("SELECT a FROM t qualify", "SELECT a FROM t AS qualify"),
        ("SELECT a FROM t LIMIT 10 % OFFSET 2", "SELECT a FROM t LIMIT 10 PERCENT OFFSET 2"),
        ("SELECT a FROM t LIMIT 10 % 3", "="),
        ("SELECT a FROM t LIMIT ALL", "SELECT a FROM t"),
        (
            "SELECT a FROM t ORDER BY a OFFSET 1 ROW FETCH NEXT 3 ROWS WITH TIES",
            "SELECT a FROM t ORDER BY a OFFSET 1 FETCH FIRST 3 ROWS WITH TIES",
        ),
        ("SELECT 1 UNION ALL BY NAME SELECT 2 EXCEPT SELECT 3 INTERSECT SELECT 4", "="),
        ("(SELECT 1 UNION SELECT 2) INTERSECT SELECT 3", "="),
        ("(SELECT 1 ORDER BY 1 LIMIT 1) UNION (SELECT 2)", "(SELECT 1 ORDER BY 1 LIMIT 1) UNION SELECT 2"),
        ("VALUES (1, 'a'), (2, 'b') ORDER BY 1", "="),
        ("TABLE t", "="),
        (
            "WITH RECURSIVE a (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a), b AS MATERIALIZED (FROM a) SELECT * FROM b",
            "WITH RECURSIVE a (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a), b AS MATERIALIZED (SELECT * FROM a) SELECT * FROM b",
        ),
        (
            "WITH RECURSIVE a (k, x) USING KEY (k) AS (SELECT 1, 2 UNION SELECT k, x FROM a) FROM a",
            "WITH RECURSIVE a (k, x) USING KEY (k) AS (SELECT 1, 2 UNION SELECT k, x FROM a) SELECT * FROM a",
        ),
        (
            "WITH RECURSIVE a (k, x) USING KEY (k, min(x, 2) AS x) AS (SELECT 1, 2 UNION ALL SELECT k, x FROM recurring.a) TABLE a",
            "=",
        ),
        (
            "MERGE INTO t USING s USING (k) WHEN MATCHED AND a THEN UPDATE SET * WHEN MATCHED THEN ERROR 'x' || k \
             WHEN NOT MATCHED AND b THEN INSERT BY NAME WHEN NOT MATCHED THEN ERROR RETURNING *",
            "=",
        ),
        (
            "MERGE INTO t USING s ON a WHEN MATCHED AND b THEN UPDATE BY NAME WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT",
            "MERGE INTO t USING s ON a WHEN MATCHED AND b THEN UPDATE BY NAME WHEN MATCHED THEN UPDATE SET * \
             WHEN NOT MATCHED THEN INSERT *",
        ),
        ("WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone", "="),
        ("SELECT a INTO TEMP u FROM t", "CREATE TEMP TABLE u AS SELECT a FROM t"),
        ("SELECT a FROM t WHERE b FOR UPDATE SKIP LOCKED", "="),
        ("PIVOT cities ON year IN (2000, 2010 AS later) USING sum(people) AS p GROUP BY country ORDER BY country", "="),
        ("PIVOT (FROM t) ON a, b USING count(*)", "PIVOT (SELECT * FROM t) ON a, b USING count(*)"),
        ("UNPIVOT sales INCLUDE NULLS ON jan, (feb, mar) AS q INTO NAME month VALUE a, b", "="),
        ("SELECT * FROM (PIVOT t ON a USING sum(b))", "="),
    ]);
}

#[test]
fn tables_of_queries() {
    check(&[
        ("SELECT * FROM a JOIN b ON a.x = b.x LEFT JOIN c USING (k), d", "="),
        (
            "SELECT * FROM a LEFT OUTER JOIN b ON true NATURAL FULL JOIN c CROSS JOIN d",
            "SELECT * FROM a LEFT JOIN b ON true NATURAL FULL JOIN c CROSS JOIN d",
        ),
        (
            "SELECT * FROM a JOIN b JOIN c ON b.x = c.x ON a.x = b.x",
            "SELECT * FROM a JOIN (b JOIN c ON b.x = c.x) ON a.x = b.x",
        ),
        ("SELECT * FROM (a JOIN b ON x) JOIN c ON y", "SELECT * FROM a JOIN b ON x JOIN c ON y"),
        ("SELECT * FROM (a JOIN b ON x) AS j", "="),
        ("SELECT * FROM t AS 'two words' ('a', B)", "SELECT * FROM t AS \"two words\"(\"a\", b)"),
        ("SELECT * FROM (DESCRIBE t) AS d JOIN (SUMMARIZE SELECT 1) ON true", "="),
        ("FROM (DESC 'x.csv')", "SELECT * FROM (DESCRIBE 'x.csv')"),
        (
            "SELECT * FROM (SHOW TABLES), (SHOW ALL TABLES), show, (describe)",
            "SELECT * FROM (SHOW TABLES), (SHOW ALL TABLES), show, describe",
        ),
        ("SELECT * FROM a ASOF LEFT JOIN b USING (k, t) POSITIONAL JOIN c", "="),
        (
            "SELECT * FROM a SEMI JOIN b USING (k) LEFT ANTI JOIN c ON d RIGHT SEMI JOIN e USING (k)",
            "SELECT * FROM a SEMI JOIN b USING (k) ANTI JOIN c ON d RIGHT SEMI JOIN e USING (k)",
        ),
        ("SELECT * FROM t AT (VERSION => 12) AS u, v AT (TIMESTAMP => now())", "="),
        ("SELECT * FROM t at", "SELECT * FROM t AS at"),
        ("SELECT * FROM asof, semi JOIN positional ON anti", "="),
        (
            "SELECT * FROM 'x.csv' (HEADER true, delim ';') AS x (a, b)",
            "SELECT * FROM 'x.csv' (header = true, delim = ';') AS x(a, b)",
        ),
        (
            "SELECT * FROM read_csv('x', types => {'a': 'INT'}) t",
            "SELECT * FROM read_csv('x', types := {'a': 'INT'}) AS t",
        ),
        (
            "SELECT * FROM t, LATERAL (SELECT t.a) AS l, unnest(t.b) WITH ORDINALITY AS u (e, n)",
            "SELECT * FROM t, LATERAL (SELECT t.a) AS l, unnest(t.b) WITH ORDINALITY AS u(e, n)",
        ),
        ("SELECT * FROM ((SELECT 1) UNION SELECT 2) AS q", "SELECT * FROM (SELECT 1 UNION SELECT 2) AS q"),
        ("SELECT * FROM ((SELECT 1) AS a JOIN b ON c)", "SELECT * FROM (SELECT 1) AS a JOIN b ON c"),
        ("SELECT * FROM (VALUES (1, 2)) AS v(a, b)", "="),
        ("SELECT * FROM VALUES (1), (2) v(a)", "SELECT * FROM (VALUES (1), (2)) AS v(a)"),
        ("SELECT * FROM u: t", "SELECT * FROM t AS u"),
        (
            "SELECT * FROM t TABLESAMPLE reservoir(20 ROWS) REPEATABLE (7) x",
            "SELECT * FROM t AS x TABLESAMPLE 20 ROWS (reservoir, 7)",
        ),
        ("SELECT * FROM t TABLESAMPLE SYSTEM (20)", "SELECT * FROM t TABLESAMPLE 20 PERCENT (system)"),
        ("SELECT * FROM t USING SAMPLE 10% (bernoulli, 7)", "SELECT * FROM t USING SAMPLE 10 PERCENT (bernoulli, 7)"),
        ("SELECT * FROM t PIVOT (sum(a) AS s FOR b IN (1, 2 AS two) c IN ('x') GROUP BY d) AS p", "="),
        ("SELECT * FROM t UNPIVOT INCLUDE NULLS ((a, b) FOR c IN ((d, e) AS x, (f, g) AS y))", "="),
        ("SELECT * FROM only JOIN natural USING (k)", "="),
        ("SELECT * FROM ONLY t", "SELECT * FROM t"),
    ]);
}

#[test]
fn statements_that_write() {
    check(&[
        (
            "INSERT INTO t AS x (a, b) OVERRIDING SYSTEM VALUE VALUES (1, DEFAULT) ON CONFLICT (a) DO UPDATE SET b = x.b + excluded.b WHERE c RETURNING *",
            "=",
        ),
        ("INSERT OR IGNORE INTO t BY NAME SELECT 1 AS a", "="),
        ("INSERT OR REPLACE INTO t DEFAULT VALUES", "="),
        ("INSERT INTO t (VALUES (1), (2),)", "INSERT INTO t VALUES (1), (2)"),
        ("INSERT INTO t (VALUES (DEFAULT))", "INSERT INTO t VALUES (DEFAULT)"),
        ("INSERT INTO t (SELECT 1)", "INSERT INTO t SELECT 1"),
        ("INSERT INTO t VALUES (1),", "INSERT INTO t VALUES (1)"),
        ("INSERT INTO t TABLE s ON CONFLICT ON CONSTRAINT k DO NOTHING", "="),
        ("WITH n AS (SELECT 1) INSERT INTO t FROM n", "WITH n AS (SELECT 1) INSERT INTO t SELECT * FROM n"),
        (
            "UPDATE t x SET a = DEFAULT, (b, c) = (1, DEFAULT), (d, e) = (SELECT 1, 2) FROM u WHERE v RETURNING a AS z",
            "UPDATE t AS x SET a = DEFAULT, (b, c) = (1, DEFAULT), (d, e) = (SELECT 1, 2) FROM u WHERE v RETURNING a AS z",
        ),
        ("DELETE FROM t USING u WHERE t.a = u.a RETURNING t.*", "="),
        (
            "MERGE INTO t AS x USING (SELECT 1) AS s(k) ON x.k = s.k WHEN MATCHED AND a THEN UPDATE SET b = DEFAULT WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY TARGET THEN INSERT (k) VALUES (s.k) WHEN NOT MATCHED BY SOURCE THEN DO NOTHING RETURNING merge_action, *",
            "MERGE INTO t AS x USING (SELECT 1) AS s(k) ON x.k = s.k WHEN MATCHED AND a THEN UPDATE SET b = DEFAULT WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k) WHEN NOT MATCHED BY SOURCE THEN DO NOTHING RETURNING merge_action, *",
        ),
        ("MERGE INTO t USING s USING (a, b) WHEN NOT MATCHED THEN INSERT DEFAULT VALUES", "="),
        (
            "COPY t (a, b) FROM 'dir/*.csv' (FORMAT csv, HEADER, NULL '', skip = -1, FORCE_NOT_NULL (a, b))",
            "COPY t (a, b) FROM 'dir/*.csv' (format = csv, header, null = '', skip = -1, force_not_null = (a, b))",
        ),
        (
            "COPY (FROM t) TO 'x.parquet' WITH (COMPRESSION zstd(3), FORCE_QUOTE *)",
            "COPY (SELECT * FROM t) TO 'x.parquet' (compression = zstd(3), force_quote = *)",
        ),
        (
            "COPY t FROM STDIN CSV HEADER DELIMITER AS ';'",
            "COPY t FROM STDIN (format = 'csv', header, delimiter = ';')",
        ),
        ("COPY t TO STDOUT", "="),
        ("TRUNCATE TABLE IF EXISTS a, b RESTART IDENTITY", "TRUNCATE IF EXISTS a, b RESTART IDENTITY"),
    ]);
}

#[test]
fn statements_about_objects() {
    check(&[
        (
            "CREATE OR REPLACE TABLE IF NOT EXISTS s.t (a INT NOT NULL DEFAULT 1 + 1 CHECK (a > 0), b VARCHAR CONSTRAINT u UNIQUE NOT ENFORCED REFERENCES d (k), PRIMARY KEY (a), CONSTRAINT f FOREIGN KEY (b) REFERENCES d ON DELETE RESTRICT NOT ENFORCED, LIKE o) WITH (preset = 'row', fillfactor = 70)",
            "CREATE OR REPLACE TABLE IF NOT EXISTS s.t (a INT NOT NULL DEFAULT 1 + 1 CHECK (a > 0), b VARCHAR CONSTRAINT u UNIQUE NOT ENFORCED REFERENCES d (k), PRIMARY KEY (a), CONSTRAINT f FOREIGN KEY (b) REFERENCES d NOT ENFORCED, LIKE o) WITH (preset = 'row', fillfactor = 70)",
        ),
        (
            "CREATE TEMP TABLE t (a BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY -5), b AS (a * 2) STORED) ON COMMIT DELETE ROWS",
            "CREATE TEMP TABLE t (a BIGINT GENERATED ALWAYS AS IDENTITY (START 10 INCREMENT -5), b GENERATED ALWAYS AS (a * 2)) ON COMMIT DELETE ROWS",
        ),
        ("CREATE TABLE u (a, b) AS SELECT 1, 2 WITH NO DATA", "="),
        (
            "CREATE TABLE indexed (key BIGINT, INDEX VARCHAR(3), PRIMARY KEY (key))",
            "CREATE TABLE indexed (key BIGINT, index VARCHAR(3), PRIMARY KEY (key))",
        ),
        (
            "ALTER TABLE IF EXISTS t ADD c INT DEFAULT 7 NOT NULL, DROP COLUMN IF EXISTS d CASCADE, RENAME a TO b, ALTER e SET DATA TYPE BIGINT USING e + 1, ALTER COLUMN f DROP NOT NULL, ALTER g ADD GENERATED BY DEFAULT AS IDENTITY",
            "ALTER TABLE IF EXISTS t ADD COLUMN c INT DEFAULT 7 NOT NULL, DROP COLUMN IF EXISTS d CASCADE, RENAME COLUMN a TO b, ALTER COLUMN e TYPE BIGINT USING e + 1, ALTER COLUMN f DROP NOT NULL, ALTER COLUMN g ADD GENERATED BY DEFAULT AS IDENTITY",
        ),
        (
            "ALTER TABLE t ADD CONSTRAINT k UNIQUE (a), DROP CONSTRAINT IF EXISTS l, RENAME CONSTRAINT m TO n, RENAME TO u",
            "=",
        ),
        ("ALTER TABLE t SET DESIGN (preset = 'pax', sort = 'a, b')", "="),
        ("ALTER TABLE t ADD COPY c (a, b) WITH (sort = 'a'), DROP COPY IF EXISTS d", "="),
        ("ALTER VIEW v RENAME TO w", "="),
        ("ALTER MATERIALIZED VIEW IF EXISTS v RENAME TO w", "="),
        (
            "CREATE OR REPLACE MATERIALIZED VIEW IF NOT EXISTS v (a, b) WITH (sort = 'a', refresh = 'on commit') AS SELECT 1, 2 WITH NO DATA",
            "=",
        ),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1 WITH DATA", "CREATE MATERIALIZED VIEW v AS SELECT 1"),
        ("REFRESH MATERIALIZED VIEW CONCURRENTLY v WITH DATA", "REFRESH MATERIALIZED VIEW CONCURRENTLY v"),
        ("REFRESH MATERIALIZED VIEW s.v WITH NO DATA", "="),
        ("DROP MATERIALIZED VIEW IF EXISTS v, w CASCADE", "="),
        ("COMMENT ON MATERIALIZED VIEW v IS NULL", "="),
        ("CREATE OR REPLACE TEMP VIEW v (a) AS SELECT 1", "="),
        (
            "CREATE UNIQUE INDEX IF NOT EXISTS i ON t USING btree (a DESC, b)",
            "CREATE UNIQUE INDEX IF NOT EXISTS i ON t USING btree (a, b)",
        ),
        (
            "CREATE SEQUENCE s AS SMALLINT CYCLE MAXVALUE 3 NO MINVALUE START WITH -2",
            "CREATE SEQUENCE s AS SMALLINT CYCLE MAXVALUE 3 NO MINVALUE START -2",
        ),
        ("CREATE OR REPLACE FUNCTION add(a, b := 1) AS a + b", "CREATE OR REPLACE MACRO add(a, b := 1) AS a + b"),
        ("CREATE MACRO f() AS TABLE FROM t", "CREATE MACRO f() AS TABLE SELECT * FROM t"),
        ("CREATE SCHEMA IF NOT EXISTS s", "="),
        ("CREATE TYPE mood AS ENUM('sad', 'ok')", "="),
        ("DROP TABLE IF EXISTS a, s.b CASCADE", "="),
        ("DROP MACRO TABLE f", "="),
        ("COMMENT ON COLUMN t.a IS 'it''s'", "="),
        ("COMMENT ON TABLE t IS NULL", "="),
        ("VACUUM (FULL, ANALYZE) t", "VACUUM t"),
        ("VACUUM FULL", "VACUUM"),
        ("ANALYZE VERBOSE t (a)", "ANALYZE t (a)"),
        ("CHECK", "="),
        ("CALIBRATE", "="),
        ("ADVISE t COPIES 3 BUDGET '2GB'", "="),
        ("ADVISE COPIES 3", "="),
        ("ADVISE copies", "="),
        ("WHATIF t DESIGN (preset = 'row') FOR FROM t", "WHATIF t DESIGN (preset = 'row') FOR SELECT * FROM t"),
        ("BACKUP TO 'folder'", "="),
        ("ATTACH 'folder' AS other (read_only)", "="),
        ("ATTACH DATABASE IF NOT EXISTS 'folder'", "ATTACH IF NOT EXISTS 'folder'"),
        ("DETACH DATABASE IF EXISTS other", "DETACH IF EXISTS other"),
        ("RESTORE FROM 'folder'", "="),
        ("EXPORT DATABASE 'folder' (FORMAT parquet)", "EXPORT DATABASE 'folder' (format = parquet)"),
        ("IMPORT DATABASE 'folder'", "="),
    ]);
}

#[test]
fn statements_about_the_session() {
    check(&[
        (
            "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE",
            "BEGIN ISOLATION LEVEL REPEATABLE READ, READ WRITE",
        ),
        ("START TRANSACTION READ ONLY", "BEGIN READ ONLY"),
        ("END WORK", "COMMIT"),
        ("ABORT", "ROLLBACK"),
        ("ROLLBACK WORK TO a", "ROLLBACK TO SAVEPOINT a"),
        ("RELEASE a", "RELEASE SAVEPOINT a"),
        ("SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "="),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "="),
        ("SET freestone.design TO 'slotted'", "SET freestone.design = 'slotted'"),
        ("SET LOCAL workload = literals", "="),
        ("SET synchronous_commit = off", "="),
        ("SET session.x = -1", "="),
        ("SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE", "SET time_zone = '-08:00'"),
        ("SET TIME ZONE -5", "SET time_zone = -5"),
        ("SET TIME ZONE DEFAULT", "SET time_zone = DEFAULT"),
        ("SET VARIABLE x = (SELECT 1)", "="),
        ("RESET VARIABLE x", "="),
        ("RESET ALL", "="),
        ("SHOW ALL TABLES", "="),
        ("SHOW TABLES", "="),
        ("SHOW TIME ZONE", "SHOW time_zone"),
        ("SHOW TRANSACTION ISOLATION LEVEL", "SHOW transaction_isolation"),
        ("SHOW COLUMNS FROM t", "DESCRIBE t"),
        ("SHOW CREATE TABLE t", "="),
        ("DESC t", "DESCRIBE t"),
        ("DESCRIBE 'x.csv'", "="),
        ("DESCRIBE SELECT 1", "="),
        ("SUMMARIZE FROM t", "SUMMARIZE SELECT * FROM t"),
        (
            "EXPLAIN (ANALYZE, VERBOSE off, FORMAT text) UPDATE t SET a = 1",
            "EXPLAIN ANALYZE FORMAT text UPDATE t SET a = 1",
        ),
        ("EXPLAIN ANALYZE CREATE TABLE u AS SELECT 1", "="),
        ("PREPARE p (INT, DOUBLE PRECISION) AS SELECT $1 + $2", "PREPARE p (INT, DOUBLE) AS SELECT $1 + $2"),
        ("EXECUTE p(1, name := 'x')", "EXECUTE p(1, name := 'x')"),
        ("EXECUTE p", "="),
        ("DEALLOCATE PREPARE ALL", "DEALLOCATE ALL"),
        ("USE s", "="),
        ("PRAGMA table_info('t')", "="),
        ("DISCARD TEMPORARY", "DISCARD TEMP"),
        ("DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT 1", "DECLARE c CURSOR WITH HOLD FOR SELECT 1"),
        ("FETCH NEXT FROM c", "FETCH FORWARD 1 FROM c"),
        ("FETCH 7 c", "FETCH FORWARD 7 FROM c"),
        ("FETCH c", "FETCH FORWARD 1 FROM c"),
        ("MOVE FORWARD ALL IN c", "MOVE FORWARD ALL FROM c"),
        ("CLOSE ALL", "="),
    ]);
}

#[test]
fn errors_say_where_and_what() {
    check_errors(&[
        ("SELECT WHERE a", "line 1, column 8: expected an expression, found \"WHERE\""),
        ("SELECT a\nFROM WHERE b", "line 2, column 6: expected a table, found \"WHERE\""),
        (
            "SELCT 1",
            "line 1, column 1: expected a statement, found \"SELCT\"\nSELCT 1\n^^^^^\nhint: did you mean SELECT?",
        ),
        (
            "SELECT a FORM t",
            "line 1, column 15: expected the end of the statement, found \"t\"\nSELECT a FORM t\n              ^\nhint: did you mean FROM?",
        ),
        ("SELECT 1 +", "line 1, column 11: expected an expression, found the end of the text"),
        ("SELECT (1", "line 1, column 10: expected \",\" or \")\", found the end of the text"),
        ("SELECT 'a", "line 1, column 8: unterminated string literal"),
        ("SELECT ) + 'a", "line 1, column 8: expected an expression"),
        ("SELECT a < b < c", "line 1, column 14: expected AND, OR or the end of the condition, found \"<\""),
        ("SELECT a IN ()", "line 1, column 14: expected an expression"),
        ("SELECT * FROM a JOIN b", "line 1, column 23: expected ON or USING"),
        ("SELECT CASE a END", "line 1, column 15: expected WHEN, found \"END\""),
        ("SELECT a FROM t LIMIT 1, 2", "line 1, column 24: LIMIT offset, count is not available"),
        ("SELECT a FROM t FOR SHARE", "line 1, column 21: FOR SHARE is not available"),
        ("SELECT a FROM t GROUP BY a WITH ROLLUP", "line 1, column 28: WITH ROLLUP behind GROUP BY is not available"),
        ("CREATE TABLE t (a)", "line 1, column 17: column a has no type"),
        ("CREATE TABLE t (a INT b INT)", "line 1, column 23: expected \",\" or \")\", found \"b\""),
        (
            "CREATE TABLE t (order INT)",
            "line 1, column 17: expected a column, found \"order\"\nCREATE TABLE t (order INT)\n                ^^^^^\nhint: order is a reserved word",
        ),
        ("INSERT t VALUES (1)", "line 1, column 8: expected INTO, found \"t\""),
        ("INSERT INTO t x", "line 1, column 15: expected VALUES, SELECT or DEFAULT VALUES"),
        ("UPDATE t SET a + 1", "line 1, column 16: expected \"=\", found \"+\""),
        ("SELECT DEFAULT", "line 1, column 8: expected an expression"),
        ("SELECT * FROM (SELECT a INTO u FROM t)", "line 1, column 25: INTO in a part of a query is not available"),
        ("CREATE VIEW v AS SELECT a INTO u", "line 1, column 27: INTO in a part of a statement is not available"),
        (
            "PREPARE p AS WITH d AS (DELETE FROM t) SELECT 1",
            "line 1, column 14: PREPARE of this statement is not available",
        ),
        ("EXPLAIN VACUUM", "line 1, column 9: EXPLAIN of this statement is not available"),
        ("ATTACH x", "line 1, column 8: expected a folder in quotes, found \"x\""),
        ("INSTALL httpfs", "line 1, column 1: an extension is not available"),
        ("SELECT “a”", "line 1, column 8: \"“\" is a typographic quotation mark"),
        ("SELECT 12abc", "line 1, column 8: \"12abc\" is no number"),
        ("SELECT count(a, DISTINCT b)", "line 1, column 17: expected an expression, found \"DISTINCT\""),
        ("BEGIN; COMMIT", "line 1, column 8: expected the end of the text"),
        ("SELECT 1 EXCEPT BY NAME SELECT 2", "line 1, column 17: expected SELECT"),
        ("SELECT a FROM t GROUP BY DISTINCT a", "line 1, column 26: DISTINCT of grouping sets is not available"),
        ("PIVOT t", "line 1, column 8: expected ON or USING"),
        ("SELECT 'a' 'b'", "line 1, column 12: expected the end of the statement"),
        ("SELECT a @ b", "line 1, column 10: expected the end of the statement"),
        ("SELECT f(VARIADIC a)", "line 1, column 20: VARIADIC in a call of f is not available"),
        ("SELECT concat(VARIADIC a, b)", "line 1, column 27: VARIADIC stands before the last argument"),
    ]);
}

#[test]
fn errors_have_the_codes_of_postgres() {
    let code = |sql: &str| parse_statement(sql).unwrap_err().code;
    assert_eq!(code("SELECT"), ErrorCode::Syntax);
    assert_eq!(code("INSTALL httpfs"), ErrorCode::Unsupported);
    assert_eq!(code(&format!("SELECT {}1", "(".repeat(200))), ErrorCode::TooComplex);
    assert_eq!(code("SELECT").sqlstate(), "42601");
    assert_eq!(parse_statement("SELECT a FROM").unwrap_err().expected, ["a table"]);
}

#[test]
fn kinds_of_statements() {
    use crate::tree::Kind;
    for (sql, kind, writes, is_query) in [
        ("SELECT 1", Kind::Query, false, true),
        ("WITH d AS (DELETE FROM t) SELECT 1", Kind::Query, true, false),
        ("SELECT a FROM t FOR UPDATE", Kind::Query, true, false),
        ("INSERT INTO t VALUES (1)", Kind::Write, true, false),
        ("COPY t TO 'x.csv'", Kind::Write, false, false),
        ("SELECT a INTO u FROM t", Kind::Definition, true, false),
        ("EXPLAIN DELETE FROM t", Kind::Query, false, false),
        ("EXPLAIN ANALYZE DELETE FROM t", Kind::Query, true, false),
        ("VACUUM", Kind::Maintenance, true, false),
        ("SET x = 1", Kind::Session, false, false),
    ] {
        let statement = parse_statement(sql).expect(sql);
        assert_eq!((statement.kind(), statement.writes(), statement.is_query()), (kind, writes, is_query), "{sql}");
    }
}

#[test]
fn spans_are_those_of_the_text() {
    use crate::tree::{QueryBody, StatementKind};
    let sql = "SELECT a + (b * 2) AS c, f(x)[1] FROM t JOIN u ON p";
    let statement = parse_statement(sql).unwrap();
    assert_eq!(statement.span.of(sql), sql);
    let StatementKind::Query(query) = &statement.kind else { panic!("a query") };
    let QueryBody::Select(select) = &query.body else { panic!("a SELECT") };
    let items: Vec<&str> = select.items.iter().map(|item| item.value.span.of(sql)).collect();
    assert_eq!(items, ["a + (b * 2)", "f(x)[1]"]);
    assert_eq!(select.from[0].span.of(sql), "t JOIN u ON p");
}
