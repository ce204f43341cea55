//! Parameters of every type, compared with columns of every type, return the same results as literals.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use freestone::{Database, Error, Inputs, Options, ScalarValue, Session, parse_script};

const COLUMNS: [(&str, &str, [&str; 3]); 13] = [
    ("i16", "SMALLINT", ["1", "-32768", "32767"]),
    ("i32", "INT", ["1", "2", "-2147483648"]),
    ("i64", "BIGINT", ["1", "3", "9007199254740993"]),
    ("u32", "INT UNSIGNED", ["1", "2", "4294967295"]),
    ("f32", "REAL", ["1", "1.5", "CAST('Infinity' AS REAL)"]),
    ("f64", "DOUBLE", ["1", "1.5", "CAST('NaN' AS DOUBLE)"]),
    ("dec", "DECIMAL(10, 2)", ["1", "1.50", "-0.25"]),
    ("d", "DATE", ["DATE '2020-01-01'", "DATE '1969-12-31'", "DATE '2020-02-29'"]),
    (
        "ts",
        "TIMESTAMP",
        ["TIMESTAMP '2020-01-01 00:00:00'", "TIMESTAMP '2020-01-01 12:00:00'", "TIMESTAMP '1969-12-31 23:59:59'"],
    ),
    ("tm", "TIME", ["TIME '00:00:00'", "TIME '12:00:00'", "TIME '23:59:59'"]),
    ("s", "VARCHAR", ["'1'", "'1.5'", "'x'"]),
    ("b", "BOOLEAN", ["TRUE", "FALSE", "TRUE"]),
    ("bin", "BYTEA", ["X'01'", "X'00'", "X'ff'"]),
];

/// Boolean expressions, which are also used as filters.
const TESTS: [&str; 10] = [
    "{c} = {p}",
    "{c} <> {p}",
    "{c} < {p}",
    "{p} <= {c}",
    "{c} >= {p}",
    "{c} IS DISTINCT FROM {p}",
    "{c} IN ({p})",
    "{c} NOT IN ({p}, {p})",
    "{c} BETWEEN {p} AND {p}",
    "{c} LIKE {p}",
];

const TERMS: [&str; 14] = [
    "{c} + {p}",
    "{p} + {c}",
    "{c} - {p}",
    "{p} - {c}",
    "{c} * {p}",
    "{c} / {p}",
    "{c} % {p}",
    "{c} || {p}",
    "coalesce({c}, {p})",
    "coalesce({p}, {c})",
    "nullif({c}, {p})",
    "CASE WHEN id = 1 THEN {c} ELSE {p} END",
    "CASE {c} WHEN {p} THEN 1 ELSE 2 END",
    "{p}",
];

/// Literals of all types.
const LITERALS: [&str; 16] = [
    "CAST(1 AS SMALLINT)",
    "CAST(2 AS INT)",
    "1",
    "CAST('1.5' AS REAL)",
    "CAST('1.5' AS DOUBLE)",
    "CAST('NaN' AS DOUBLE)",
    "1.504",
    "DATE '2020-01-01'",
    "TIMESTAMP '2020-01-01 12:00:00'",
    "TIME '12:00:00'",
    "INTERVAL '1 hour'",
    "TRUE",
    "'1'",
    "'1.5'",
    "'2020-01-01'",
    "NULL",
];

/// The literals with their values.
async fn values(session: &Session) -> Vec<(ScalarValue, &'static str)> {
    let mut values = vec![];
    for literal in LITERALS {
        let rows = session.sql(&format!("SELECT {literal}")).await.expect(literal).collect().await.expect(literal);
        values.push((ScalarValue::try_from_array(rows[0].column(0), 0).expect(literal), literal));
    }
    values
}

async fn filled(session: &Session, table: &str) {
    let columns: Vec<String> = COLUMNS.iter().map(|(name, kind, _)| format!("{name} {kind}")).collect();
    let made = format!("CREATE OR REPLACE TABLE {table} (id INT, {})", columns.join(", "));
    session.sql(&made).await.expect("a table");
    for row in 0..3 {
        let values: Vec<&str> = COLUMNS.iter().map(|(.., values)| values[row]).collect();
        let insert = format!("INSERT INTO {table} VALUES ({}, {})", row + 1, values.join(", "));
        session.sql(&insert).await.unwrap_or_else(|error| panic!("{insert}: {error}"));
    }
    session.sql(&format!("INSERT INTO {table} (id) VALUES (4)")).await.expect("NULLs");
}

/// Types and values of the rows, or the kind of the error.
async fn outcome(session: &Session, sql: &str, values: Vec<ScalarValue>) -> Result<String, Error> {
    let statement = &parse_script(sql)[0];
    let outcome = session.execute_with(statement, values).await?;
    let batches = outcome.collect().await?;
    Ok(batches.iter().map(shown).collect::<Vec<_>>().join("\n"))
}

fn shown(batch: &RecordBatch) -> String {
    let options = FormatOptions::default().with_null("NULL");
    let schema = batch.schema();
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        let formatter = ArrayFormatter::try_new(column, &options).expect("a formatter");
        let values: Vec<String> = (0..batch.num_rows()).map(|row| formatter.value(row).to_string()).collect();
        // Strings have several types that users cannot distinguish.
        let kind = field.data_type().to_string().replace("Utf8View", "Utf8");
        format!("{kind}: {}", values.join(", "))
    });
    columns.collect::<Vec<_>>().join("; ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_are_as_literals() {
    let database = Database::in_memory(Options { threads: 1, ..Options::default() }).expect("a database");
    let session = database.session();
    filled(&session, "t").await;
    let values = values(&session).await;
    let mut differences = vec![];
    let selected = |term: &&str| format!("SELECT {term} FROM t ORDER BY id");
    let filtered = |test: &&str| format!("SELECT id FROM t WHERE {test} ORDER BY id");
    let forms: Vec<String> = TESTS.iter().chain(&TERMS).map(selected).chain(TESTS.iter().map(filtered)).collect();
    for (column, ..) in COLUMNS {
        for (value, literal) in &values {
            for form in &forms {
                let with = |value: &str| form.replace("{c}", column).replace("{p}", value);
                let given = outcome(&session, &with("$1"), vec![value.clone()]).await;
                let written = outcome(&session, &with(literal), vec![]).await;
                let same = match (&given, &written) {
                    (Ok(given), Ok(written)) => given == written,
                    (Err(given), Err(written)) => given.kind() == written.kind(),
                    _ => false,
                };
                if !same {
                    differences.push(format!("{}: {given:?}\n  but {}: {written:?}", with("$1"), with(literal)));
                }
            }
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_are_stored_as_literals() {
    let database = Database::in_memory(Options { threads: 1, ..Options::default() }).expect("a database");
    let session = database.session();
    let values = values(&session).await;
    let mut differences = vec![];
    for (column, kind, _) in COLUMNS {
        for (value, literal) in &values {
            for form in ["INSERT INTO u VALUES ({p})", "INSERT INTO u SELECT {p}", "UPDATE u SET {c} = {p}"] {
                let mut rows = vec![];
                for (text, values) in [("$1", vec![value.clone()]), (*literal, vec![])] {
                    let made = format!("CREATE OR REPLACE TABLE u AS SELECT CAST(NULL AS {kind}) AS {column}");
                    session.sql(&made).await.expect("a table");
                    let sql = form.replace("{c}", column).replace("{p}", text);
                    let stored = match outcome(&session, &sql, values).await {
                        Ok(_) => outcome(&session, &format!("SELECT {column} FROM u"), vec![]).await,
                        Err(error) => Err(error),
                    };
                    rows.push(stored.map_err(|error| error.kind()));
                }
                if rows[0] != rows[1] {
                    differences.push(format!("{form} of {literal} in {kind}: {:?} but {:?}", rows[0], rows[1]));
                }
            }
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn types_that_nobody_declared_follow_from_their_places() {
    let database = Database::in_memory(Options::default()).expect("a database");
    let session = database.session();
    session.sql("CREATE TABLE t (i INT, n DECIMAL(10, 2), d DATE, s VARCHAR, f DOUBLE)").await.expect("a table");
    let list = |element: DataType| DataType::List(Field::new_list_field(element, true).into());
    let text = DataType::Utf8View;
    let interval = DataType::Interval(IntervalUnit::MonthDayNano);
    for (sql, expected) in [
        ("SELECT $1", vec![text.clone()]),
        ("SELECT $1::int, CAST($2 AS DATE)", vec![DataType::Int32, DataType::Date32]),
        ("SELECT $1::date + 1", vec![DataType::Date32]),
        ("SELECT 1 WHERE 5 = $1::bigint", vec![DataType::Int64]),
        ("SELECT i FROM t WHERE i = $1 AND n < $2", vec![DataType::Int32, DataType::Decimal128(10, 2)]),
        ("SELECT i FROM t WHERE f > $1 OR f < $1", vec![DataType::Float64]),
        ("SELECT i FROM t WHERE i = $1 AND f = $1", vec![DataType::Int32]),
        ("SELECT i FROM t WHERE s LIKE $1 AND s || $2 = 'x'", vec![text.clone(), text.clone()]),
        ("SELECT i FROM t WHERE i IN ($1, $2)", vec![DataType::Int32, DataType::Int32]),
        ("SELECT i FROM t WHERE $1 IN (SELECT d FROM t)", vec![DataType::Date32]),
        ("SELECT i FROM t WHERE i = ANY($1) AND s = ANY($2)", vec![list(DataType::Int32), list(text.clone())]),
        ("SELECT i FROM t WHERE d BETWEEN $1 AND $2", vec![DataType::Date32, DataType::Date32]),
        ("SELECT i FROM t ORDER BY i LIMIT $1 OFFSET $2", vec![DataType::Int64, DataType::Int64]),
        (
            "SELECT coalesce(f, $1), CASE WHEN $2 THEN i ELSE $3 END FROM t",
            vec![DataType::Float64, DataType::Boolean, DataType::Int32],
        ),
        ("SELECT $1 < TIMESTAMP '2020-01-01 00:00:00'", vec![DataType::Timestamp(TimeUnit::Microsecond, None)]),
        ("SELECT TIMESTAMP '2020-01-01 00:00:00' + $1", vec![interval]),
        ("SELECT * FROM generate_series(1, $1)", vec![DataType::Int64]),
        ("INSERT INTO t (d, i) VALUES ($1, $2)", vec![DataType::Date32, DataType::Int32]),
        ("UPDATE t SET n = $2 WHERE s = $1", vec![text.clone(), DataType::Decimal128(10, 2)]),
        ("DELETE FROM t WHERE d < $1", vec![DataType::Date32]),
        ("INSERT INTO t (n, s) SELECT $1, $2", vec![DataType::Decimal128(10, 2), text.clone()]),
        (
            "UPDATE t SET (i, d) = ($1, $2) WHERE f = $3 RETURNING s = $4",
            vec![DataType::Int32, DataType::Date32, DataType::Float64, text.clone()],
        ),
        (
            "MERGE INTO t USING (SELECT 1 AS i) AS s ON t.i = s.i WHEN MATCHED THEN UPDATE SET d = $1
             WHEN NOT MATCHED THEN INSERT (f) VALUES ($2)",
            vec![DataType::Date32, DataType::Float64],
        ),
        ("SELECT i FROM t WHERE i = $1 FOR UPDATE", vec![DataType::Int32]),
        ("EXPLAIN DELETE FROM t WHERE i = $1", vec![DataType::Int32]),
    ] {
        let description = session.describe_statement(&parse_script(sql)[0], &[]).await;
        let description = description.unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(description.parameters, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn declared_types_decide() {
    let database = Database::in_memory(Options::default()).expect("a database");
    let session = database.session();
    session.sql("CREATE TABLE t AS SELECT 1 AS i UNION ALL SELECT 2").await.expect("a table");
    let declared = |kind: DataType, value: ScalarValue| Inputs {
        types: vec![Some(kind)],
        values: vec![value],
        ..Inputs::default()
    };
    let run = async |sql: &str, inputs: Inputs| -> Result<String, Error> {
        let batches = session.execute_with_inputs(&parse_script(sql)[0], inputs).await?.collect().await?;
        Ok(batches.iter().map(shown).collect::<Vec<_>>().join("\n"))
    };
    let text = || ScalarValue::Utf8(Some("1.5".into()));
    let sql = "SELECT i FROM t WHERE i < $1 ORDER BY i";
    assert_eq!(run(sql, declared(DataType::Float64, text())).await.expect(sql), "Int64: 1");
    assert!(run(sql, declared(DataType::Int32, text())).await.is_err());
    let narrow = declared(DataType::Int16, ScalarValue::Int64(Some(70_000)));
    assert!(run(sql, narrow).await.expect_err(sql).to_string().contains("parameter $1"));
    let described =
        session.describe_statement(&parse_script("SELECT i * $1 FROM t")[0], &[Some(DataType::Float64)]).await;
    let schema = described.expect("a description").schema.expect("rows");
    assert_eq!(schema.field(0).data_type(), &DataType::Float64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn marks_and_names_have_numbers_of_the_whole_statement() {
    let database = Database::in_memory(Options::default()).expect("a database");
    let session = database.session();
    session.sql("CREATE TABLE t (i INT PRIMARY KEY, a INT)").await.expect("a table");
    session.sql("INSERT INTO t VALUES (1, 10), (2, 20)").await.expect("rows");
    let given = |values: &[i64]| values.iter().map(|value| ScalarValue::Int64(Some(*value))).collect::<Vec<_>>();
    for (sql, values, expected) in [
        ("UPDATE t SET a = ? WHERE i = ? RETURNING a + ?", vec![11, 1, 100], "Int64: 111"),
        ("UPDATE t SET a = $new WHERE i = $key RETURNING a + $new", vec![12, 1], "Int64: 24"),
        (
            "INSERT INTO t VALUES (?, ?) ON CONFLICT (i) DO UPDATE SET a = ? + t.a RETURNING a * ?",
            vec![2, 0, 1, 2],
            "Int64: 42",
        ),
        ("INSERT INTO t SELECT ?, ? RETURNING i - ?", vec![3, 30, 1], "Int64: 2"),
        ("WITH gone AS (DELETE FROM t WHERE i = ? RETURNING *) SELECT a + ? FROM gone", vec![3, 5], "Int64: 35"),
        (
            "MERGE INTO t USING (SELECT ? AS k) AS s ON t.i = s.k WHEN MATCHED AND ? > 0 THEN UPDATE SET a = ? RETURNING a + ?",
            vec![2, 1, 50, 7],
            "Int64: 57",
        ),
        ("DELETE FROM t WHERE i = ? RETURNING a - ?", vec![2, 1], "Int64: 49"),
    ] {
        let statement = &parse_script(sql)[0];
        let outcome = session.execute_with(statement, given(&values)).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        let batches = outcome.collect().await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(batches.iter().map(shown).collect::<Vec<_>>().join("\n"), expected, "{sql}");
    }
}
