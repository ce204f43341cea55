//! Bad input is one error with its SQLSTATE, which names the place, and ends its statement only.

use freestone::{Database, Options, Session};

const TABLES: [&str; 4] = [
    "CREATE TABLE t (k INT, v INT, i1 TINYINT, i2 SMALLINT, i4 INT, i8 BIGINT, u1 TINYINT UNSIGNED, n DECIMAL(38, 0))",
    "INSERT INTO t VALUES (1, 0, 127, 32767, 2147483647, 9223372036854775807, 255, \
     99999999999999999999999999999999999999), (2, 5, 1, 1, 1, 1, 1, 1)",
    "CREATE TABLE s (k INT, w INT)",
    "INSERT INTO s VALUES (1, 1), (1, 2)",
];

/// Statements with the SQLSTATE of their error, and what its message says.
const CASES: [(&str, &str, &str); 47] = [
    // Subqueries with several rows or columns.
    ("SELECT (SELECT w FROM s WHERE s.k = t.k) FROM t", "21000", "more than one row"),
    ("SELECT (SELECT w FROM s) FROM t", "21000", "more than one row"),
    ("SELECT k FROM t WHERE k > (SELECT w FROM s)", "21000", "more than one row"),
    ("UPDATE t SET v = (SELECT w FROM s WHERE s.k = t.k)", "21000", "more than one row"),
    ("DELETE FROM t WHERE v = (SELECT w FROM s WHERE s.k = t.k)", "21000", "more than one row"),
    ("SELECT (SELECT k, w FROM s LIMIT 1) FROM t", "", "one column"),
    ("SELECT k FROM t WHERE k IN (SELECT k, w FROM s)", "", "one column"),
    ("SELECT k FROM t WHERE k = ANY (SELECT k, w FROM s)", "", "one column"),
    // Names that do not exist, or are ambiguous.
    ("SELECT k FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.k = t.nothing)", "42703", "t.nothing"),
    ("SELECT k FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.k = nobody.k)", "42703", "nobody"),
    ("SELECT k FROM t AS a WHERE EXISTS (SELECT 1 FROM s WHERE s.k = t.k)", "42703", "column t"),
    ("SELECT k FROM t, s", "42702", "column k could come from several tables"),
    ("SELECT * FROM t JOIN s ON t.k = s.k JOIN t AS u USING (k)", "42702", "k"),
    ("SELECT * FROM t JOIN s USING (nothing)", "42703", "nothing"),
    ("SELECT * FROM t JOIN s USING (v)", "42703", "v"),
    ("SELECT * FROM t FULL JOIN s USING (nothing)", "42703", "nothing"),
    ("SELECT * FROM t RIGHT JOIN LATERAL (SELECT t.k) AS l ON true", "42P10", "needs an INNER or LEFT JOIN"),
    // Windows.
    ("SELECT sum(v) OVER (ROWS BETWEEN CURRENT ROW AND 1 PRECEDING) FROM t", "42P20", "begins with the current row"),
    ("SELECT sum(v) OVER (ORDER BY k ROWS UNBOUNDED FOLLOWING) FROM t", "42P20", "begin with UNBOUNDED FOLLOWING"),
    ("SELECT sum(v) OVER (ORDER BY k ROWS -1 PRECEDING) FROM t", "", "non negative"),
    ("SELECT sum(v) OVER (ORDER BY k ROWS NULL PRECEDING) FROM t", "", "non negative"),
    ("SELECT sum(v) OVER (ORDER BY k, v RANGE 1 PRECEDING) FROM t", "", "one ORDER BY column"),
    ("SELECT sum(v) OVER (RANGE 1 PRECEDING) FROM t", "", "one ORDER BY column"),
    ("SELECT sum(v) OVER (GROUPS 1 PRECEDING) FROM t", "", "ORDER BY"),
    ("SELECT sum(v) OVER (ORDER BY v EXCLUDE TIES) FROM t", "42601", "EXCLUDE"),
    ("SELECT k FROM t WHERE row_number() OVER () = 1", "42P20", "in WHERE"),
    ("SELECT count(*) FROM t GROUP BY rank() OVER (ORDER BY k)", "42P20", "in GROUP BY"),
    ("SELECT k FROM t GROUP BY k HAVING sum(k) OVER () > 1", "42P20", "in HAVING"),
    ("SELECT nth_value(v, 0) OVER (ORDER BY k) FROM t", "", "nth_value"),
    // Divisions by zero, without a guard and behind one that does not exclude it.
    ("SELECT 6 / v FROM t", "22012", "division by zero"),
    ("SELECT 6 % v FROM t", "22012", "division by zero"),
    ("SELECT k FROM t WHERE v >= 0 AND 6 / v > 2", "22012", "division by zero"),
    ("SELECT CASE WHEN v = 0 THEN 6 / v END FROM t", "22012", "division by zero"),
    // Overflow of each type.
    ("SELECT i1 + i1 FROM t", "22003", "127 + 127 is out of range for TINYINT"),
    ("SELECT i2 * i2 FROM t", "22003", "32767 * 32767"),
    ("SELECT i4 + i4 FROM t", "22003", "2147483647 + 2147483647"),
    ("SELECT i8 + 1 FROM t", "22003", "9223372036854775807 + 1"),
    ("SELECT u1 + u1 FROM t", "22003", "255 + 255"),
    ("SELECT n + 1 FROM t", "22003", "out of range for DECIMAL(38,0)"),
    ("SELECT n * 10 FROM t", "22003", "out of range for DECIMAL(38,0)"),
    ("SELECT sum(n) FROM t", "22003", "sum"),
    ("SELECT CAST(i8 AS INT) FROM t", "22003", "out of range for INTEGER"),
    ("SELECT 9223372036854775807 * 2", "22003", "9223372036854775807 * 2"),
    ("SELECT CAST('1e400' AS DOUBLE)", "", "1e400"),
    // Texts that are no values.
    ("SELECT nullif(k, 'x') FROM t", "22P02", "'x'"),
    ("SELECT k FROM t WHERE k = '1.5'", "22P02", "'1.5'"),
    ("SELECT v FROM (VALUES (1), ('x')) AS q(v)", "22P02", "'x'"),
];

async fn check(session: &Session, sql: &str, state: &str, says: &str) {
    let outcome = async { session.sql(sql).await?.collect().await };
    let error = match outcome.await {
        Ok(rows) => panic!("{sql}: {} batches", rows.len()),
        Err(error) => error,
    };
    assert!(error.to_string().contains(says), "{sql}: {error}");
    assert!(state.is_empty() || error.sqlstate() == state, "{sql}: {} {error}", error.sqlstate());
    assert!(!error.sqlstate().starts_with("XX"), "{sql}: {error}");
}

#[tokio::test]
async fn bad_input_is_a_typed_error() {
    let database = Database::in_memory(Options::default()).expect("a database");
    let session = database.session();
    for sql in TABLES {
        session.sql(sql).await.expect(sql).collect().await.expect(sql);
    }
    for (sql, state, says) in CASES {
        check(&session, sql, state, says).await;
    }
    // The session goes on, and nothing was written.
    let rows = session.sql("SELECT k FROM t WHERE v IN (0, 5)").await.expect("rows").collect().await.expect("rows");
    assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
}
