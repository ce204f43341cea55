use crate::ErrorKind;
use crate::sql::statement::parse_script;

/// Statements, and what the error that refuses each names.
fn check(cases: &[(&str, &str)]) {
    let wrong = cases.iter().filter_map(|(sql, part)| match parse_script(sql)[0].command() {
        Ok(_) => Some(format!("{sql}: accepted")),
        Err(error) => {
            let refused = error.kind() == ErrorKind::Unsupported && error.hint().is_some();
            (!refused || !error.to_string().contains(part)).then(|| format!("{sql}: {error}"))
        }
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn clauses_of_queries_that_nothing_executes_are_refused() {
    check(&[
        ("SELECT a FROM (SELECT a FROM t FOR UPDATE) AS s", "FOR UPDATE"),
        ("SELECT a FROM t FOR SHARE", "FOR SHARE"),
        ("SELECT a FROM t LIMIT 1 OFFSET 1 FOR UPDATE", "another limit"),
        ("SELECT DISTINCT a FROM t FOR UPDATE", "FOR UPDATE with DISTINCT"),
        ("SELECT a FROM t, u FOR UPDATE", "FOR UPDATE of other queries than of one table"),
        ("EXPLAIN SELECT a FROM t FOR UPDATE", "FOR UPDATE"),
        ("SELECT a FROM t WHERE a IN (SELECT a FROM u FOR SHARE)", "FOR SHARE"),
        ("SELECT a FROM t LIMIT 1 FETCH FIRST ROW ONLY", "together with LIMIT"),
        ("SELECT a FROM t ORDER BY a FETCH FIRST 2 PERCENT ROWS WITH TIES", "PERCENT WITH TIES"),
        ("SELECT a INTO UNLOGGED u FROM t", "UNLOGGED"),
        ("SELECT a FROM t TABLESAMPLE (BUCKET 1 OUT OF 2)", "BUCKET"),
        ("COMMENT ON SEQUENCE t IS 'x'", "TABLE, VIEW or COLUMN"),
        ("CREATE INDEX i ON t (a) WHERE a > 1", "WHERE of an index"),
        ("CREATE UNIQUE INDEX i ON t (a) NULLS NOT DISTINCT", "NULLS NOT DISTINCT"),
        ("SELECT a FROM t FOR XML AUTO", "FOR XML"),
        ("SELECT a FROM t SETTINGS max_threads = 1", "SETTINGS"),
        ("SELECT a FROM t FORMAT CSV", "FORMAT"),
        ("SELECT a FROM t LIMIT 1 BY a", "LIMIT … BY"),
        ("SELECT a FROM t ORDER BY a INTERPOLATE", "INTERPOLATE"),
        ("SELECT a FROM t ORDER BY a WITH FILL", "WITH FILL"),
        ("SELECT TOP 3 a FROM t", "TOP"),
        ("SELECT a FROM t LATERAL VIEW explode(b) v AS x", "LATERAL VIEW"),
        ("SELECT a FROM t PREWHERE a = 1", "PREWHERE"),
        ("SELECT a FROM t START WITH a = 1 CONNECT BY PRIOR a = b", "CONNECT BY"),
        ("SELECT a FROM t GROUP BY a WITH ROLLUP", "WITH ROLLUP"),
        ("SELECT a FROM t GROUP BY ALL WITH TOTALS", "TOTALS"),
        ("SELECT a FROM t CLUSTER BY a", "CLUSTER BY"),
        ("SELECT a FROM t DISTRIBUTE BY a", "DISTRIBUTE BY"),
        ("SELECT a FROM t SORT BY a", "SORT BY"),
        ("SELECT a FROM t CROSS APPLY u", "APPLY"),
        ("SELECT a FROM t PARTITION (p)", "PARTITION"),
        ("SELECT a FROM t WITH (NOLOCK)", "WITH (…)"),
        ("SELECT a FROM UNNEST([1, 2]) WITH OFFSET", "WITH OFFSET"),
        ("SELECT a FROM f(1) AS g (a INT)", "a type in a list of columns"),
        ("SELECT * FROM (WITH x AS (DELETE FROM t RETURNING a) SELECT * FROM x) AS q", "within a query"),
        ("PREPARE p AS WITH x AS (DELETE FROM t RETURNING a) SELECT * FROM x", "within a query"),
    ]);
}

#[test]
fn clauses_of_expressions_that_nothing_executes_are_refused() {
    check(&[
        ("SELECT CAST(a AS DATE FORMAT 'YYYY') FROM t", "FORMAT"),
        ("SELECT a LIKE ANY ('x') FROM t", "LIKE ANY"),
        ("SELECT floor(a TO DAY) FROM t", "CEIL and FLOOR"),
        ("SELECT a IS NFC NORMALIZED FROM t", "IS NORMALIZED"),
        ("SELECT a IN UNNEST([1]) FROM t", "IN UNNEST"),
        ("SELECT a RLIKE 'x' FROM t", "RLIKE"),
        ("SELECT a COLLATE \"de\" FROM t", "collation"),
        ("SELECT sum(a LIMIT 1) FROM t", "LIMIT in a function"),
        ("SELECT array(SELECT DISTINCT a FROM t ORDER BY a)", "a query as a function's argument"),
        ("SELECT 1 WHERE EXISTS (SELECT a COLLATE NOCASE FROM t)", "COLLATE"),
    ]);
}

#[test]
fn clauses_of_writes_that_nothing_executes_are_refused() {
    check(&[
        ("INSERT OVERWRITE TABLE t SELECT 1", "OVERWRITE"),
        ("UPDATE t JOIN u ON t.a = u.a SET a = 1", "JOIN"),
        ("UPDATE t SET a = 1 LIMIT 1", "LIMIT"),
        ("DELETE FROM t ORDER BY a LIMIT 1", "ORDER BY"),
        ("TRUNCATE TABLE t PARTITION (p1)", "PARTITION"),
        ("TRUNCATE t CASCADE", "CASCADE"),
        ("TRUNCATE ONLY t", "ONLY"),
        ("EXPLAIN (ANALYZE, GENERIC_PLAN) SELECT 1", "options of EXPLAIN"),
        ("EXPLAIN (FORMAT xml) SELECT 1", "options of EXPLAIN"),
        ("PREPARE p AS DELETE FROM t LIMIT 1", "LIMIT"),
    ]);
    for accepted in [
        "TRUNCATE TABLE t CONTINUE IDENTITY RESTRICT",
        "DROP TABLE t RESTRICT",
        "EXPLAIN (ANALYZE, VERBOSE off, FORMAT text) SELECT 1",
        "EXPLAIN (ANALYZE, COSTS off, FORMAT json) SELECT 1",
        "EXPLAIN (FORMAT traditional) SELECT 1",
    ] {
        assert!(parse_script(accepted)[0].command().is_ok(), "{accepted}");
    }
}

#[test]
fn clauses_of_definitions_that_nothing_executes_are_refused() {
    check(&[
        ("CREATE TRANSIENT TABLE t (a INT)", "TRANSIENT"),
        ("CREATE EXTERNAL TABLE t (a INT) LOCATION 'x'", "EXTERNAL"),
        ("CREATE TABLE t (a INT) PARTITIONED BY (b INT)", "PARTITIONED BY"),
        ("CREATE TABLE t (a INT) PARTITION BY RANGE (a)", "PARTITION BY"),
        ("CREATE TABLE t (a INT) CLUSTER BY (a)", "CLUSTER BY"),
        ("CREATE TABLE t (a INT) INHERITS (u)", "INHERITS"),
        ("CREATE TABLE t (a INT) STRICT", "STRICT"),
        ("CREATE TABLE t (a INT PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)", "DEFERRABLE"),
        ("CREATE TABLE t (a INT REFERENCES u (b) ON DELETE CASCADE)", "ON DELETE"),
        ("CREATE TABLE t (a INT, FOREIGN KEY (a) REFERENCES u (b) ON UPDATE SET NULL)", "ON UPDATE"),
        ("CREATE TABLE t (a INT REFERENCES u (b) MATCH FULL)", "MATCH"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a DESC))", "an order in a PRIMARY KEY"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", "MATERIALIZED"),
        ("CREATE OR ALTER VIEW v AS SELECT 1", "OR ALTER"),
        ("CREATE VIEW v WITH (a = 1) AS SELECT 1", "WITH and OPTIONS"),
        ("DROP TABLE t PURGE", "PURGE"),
        ("SHOW CREATE FUNCTION f", "SHOW CREATE"),
    ]);
    let accepted = "CREATE TABLE t (a INT CONSTRAINT c PRIMARY KEY, b INT REFERENCES u (b) ON DELETE NO ACTION)";
    assert!(parse_script(accepted)[0].command().is_ok());
}

/// Every other clause that the parser reads in this dialect and that nothing executes. Those that it does not read are
/// syntax errors.
#[test]
fn no_other_clause_is_dropped() {
    check(&[
        ("FROM t |> WHERE a = 1", "|>"),
        ("SELECT a FROM t |> WHERE a = 1", "|>"),
        ("SELECT a FROM t WITH ORDINALITY", "WITH ORDINALITY"),
        ("SELECT quantile(0.5)(a) FROM t", "a second list of arguments"),
        ("SELECT a FROM TABLE(f(1))", "TABLE(…)"),
        ("SELECT a FROM JSON_TABLE('[]', '$[*]' COLUMNS (a INT PATH '$')) AS j", "JSON_TABLE"),
        ("SELECT a FROM OPENJSON('[]')", "OPENJSON"),
        ("SELECT a FROM t MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS a > 1)", "MATCH_RECOGNIZE"),
        ("SELECT a FROM XMLTABLE('/x' PASSING '<x/>' COLUMNS a INT)", "XMLTABLE"),
        ("SELECT any_value(a HAVING MAX b) FROM t", "HAVING in a function"),
        ("SELECT group_concat(a SEPARATOR ',') FROM t", "SEPARATOR"),
        ("SELECT json_object('a' VALUE 1 ABSENT ON NULL)", "a clause of JSON functions"),
        ("SELECT CONVERT(a USING utf8mb4) FROM t", "CONVERT"),
        ("SELECT CONVERT(a, CHAR) FROM t", "CONVERT"),
        ("SELECT _utf8 'x'", "a value that"),
        ("SELECT a MEMBER OF ('[1]') FROM t", "MEMBER OF"),
        ("SELECT MATCH (a) AGAINST ('x') FROM t", "MATCH … AGAINST"),
        ("SELECT a FROM t OUTER APPLY u", "APPLY"),
        ("SELECT a FROM t ARRAY JOIN u", "ARRAY JOIN"),
        ("DROP INDEX i ON t", "ON behind DROP"),
        ("DROP TEMPORARY TABLE t", "DROP TEMPORARY"),
        ("EXPLAIN QUERY PLAN SELECT 1", "EXPLAIN QUERY PLAN"),
        ("EXPLAIN ESTIMATE SELECT 1", "EXPLAIN ESTIMATE"),
        ("EXECUTE p USING 1", "EXECUTE … USING"),
        ("INSERT IGNORE INTO t VALUES (1)", "INSERT IGNORE"),
        ("REPLACE INTO t VALUES (1)", "REPLACE INTO"),
        ("INSERT HIGH_PRIORITY INTO t VALUES (1)", "a priority of INSERT"),
        ("INSERT INTO t VALUES (1) AS new", "a name for the rows of INSERT"),
        ("UPDATE OR REPLACE t SET a = 1", "UPDATE OR …"),
        ("UPDATE t SET a = 1 ORDER BY a", "ORDER BY in UPDATE"),
        ("TRUNCATE t ON CLUSTER c", "ON CLUSTER"),
        ("CREATE TABLE t (a INT) STORED AS PARQUET", "the format or place"),
        ("CREATE TABLE t (a INT) WITHOUT ROWID", "WITHOUT ROWID"),
        ("CREATE TABLE t CLONE u", "CLONE"),
        ("CREATE TABLE t ON CLUSTER c (a INT)", "ON CLUSTER"),
        ("CREATE TABLE t (a INT) ORDER BY a", "PRIMARY KEY and ORDER BY"),
        ("CREATE TABLE t (a INT, PRIMARY KEY i USING BTREE (a))", "an index of a PRIMARY KEY"),
        ("CREATE TABLE t (a INT, FOREIGN KEY i (a) REFERENCES u (a))", "an index of a FOREIGN KEY"),
        ("CREATE SECURE VIEW v AS SELECT 1", "a SECURE view"),
        ("CREATE VIEW v (a COMMENT 'x') AS SELECT 1", "a type or option"),
        ("CREATE VIEW v AS SELECT 1 WITH NO SCHEMA BINDING", "WITH NO SCHEMA BINDING"),
        ("CREATE VIEW v TO t AS SELECT 1", "TO behind"),
        ("CREATE ALGORITHM = MERGE VIEW v AS SELECT 1", "ALGORITHM"),
        ("CREATE VIEW v COMMENT = 'x' AS SELECT 1", "COMMENT"),
        ("CREATE TABLE t (a INT) SORTKEY (a)", "an option behind the columns"),
    ]);
}
