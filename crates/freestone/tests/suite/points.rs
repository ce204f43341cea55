//! Point statements return what the same statements return when they are planned. Random statements run in two
//! databases: in one as they are, in the other in a form that is not recognized.

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use freestone::{Database, Options, Outcome, ScalarValue, Session};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Tables with the columns of a key first.
const TABLES: [(&str, usize, &[&str]); 5] = [
    (
        "CREATE TABLE t (id BIGINT PRIMARY KEY, a INT, s VARCHAR NOT NULL, x DOUBLE, CHECK (a < 100))",
        1,
        &["id", "a", "s", "x"],
    ),
    ("CREATE TABLE t (s VARCHAR, id SMALLINT, a INT, x DECIMAL(10, 2), UNIQUE (s, id))", 2, &["s", "id", "a", "x"]),
    ("CREATE TABLE t (x DOUBLE PRIMARY KEY, id INT, a BIGINT UNIQUE, s VARCHAR)", 1, &["x", "id", "a", "s"]),
    (
        "CREATE TABLE t (id INT UNSIGNED PRIMARY KEY, a INT REFERENCES p (id), s VARCHAR, x REAL)",
        1,
        &["id", "a", "s", "x"],
    ),
    (
        "CREATE TABLE t (s VARCHAR PRIMARY KEY, d DATE, a TINYINT, id BIGINT) WITH (design = 'row')",
        1,
        &["s", "d", "a", "id"],
    ),
];

struct Pair {
    point: Session,
    planned: Session,
}

impl Pair {
    async fn new(table: &str) -> Pair {
        let session = || Database::in_memory(Options::default()).expect("a database").session();
        let pair = Pair { point: session(), planned: session() };
        for sql in ["CREATE TABLE p (id INT PRIMARY KEY)", "INSERT INTO p VALUES (0), (1), (2), (3)", table] {
            pair.same(sql, sql, &[]).await;
        }
        pair
    }

    /// Executes a statement in both databases, and compares the outcomes.
    async fn same(&self, point: &str, planned: &str, values: &[ScalarValue]) {
        let found = outcome(&self.point, point, values).await;
        let expected = outcome(&self.planned, planned, values).await;
        assert_eq!(found, expected, "{point} with {values:?}");
        assert_eq!(self.point.transaction_status(), self.planned.transaction_status());
    }
}

async fn outcome(session: &Session, sql: &str, values: &[ScalarValue]) -> String {
    let statement = session.parse(sql).expect(sql).remove(0);
    match session.execute_with(&statement, values.to_vec()).await {
        Ok(Outcome::Affected { verb, rows }) => format!("{verb} {rows}"),
        Ok(Outcome::Done { verb }) => verb.to_owned(),
        Ok(Outcome::Rows { schema, stream }) => {
            let fields: Vec<String> = schema.fields().iter().map(|field| format!("{field:?}")).collect();
            match (Outcome::Rows { schema, stream }).collect().await {
                Ok(batches) => format!("{fields:?} {}", text(&batches)),
                Err(error) => format!("{error}"),
            }
        }
        Err(error) => format!("{:?} {error} {:?}", error.kind(), error.hint()),
    }
}

fn text(batches: &[RecordBatch]) -> String {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = vec![];
    for batch in batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).expect("formats")).collect();
        for row in 0..batch.num_rows() {
            rows.push(columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(","));
        }
    }
    rows.sort();
    rows.join(";")
}

/// A value that often fits the column.
fn value(chance: &mut StdRng, column: &str) -> ScalarValue {
    let small = chance.random_range(0..6);
    if chance.random_range(0..12) == 0 {
        return [
            ScalarValue::Null,
            ScalarValue::Int64(None),
            ScalarValue::Utf8(None),
            ScalarValue::Int64(Some(i64::MAX)),
            ScalarValue::Int64(Some(-3_000_000_000)),
            ScalarValue::Float64(Some(f64::NAN)),
            ScalarValue::Float64(Some(1.5)),
            ScalarValue::from(""),
            ScalarValue::from("5"),
            ScalarValue::Boolean(Some(true)),
            ScalarValue::Decimal128(Some(150), 10, 2),
        ][chance.random_range(0..11)]
        .clone();
    }
    match column {
        "s" => ScalarValue::from(["a", "b", "c", "1", "'", ""][small as usize]),
        "x" => match chance.random_range(0..3) {
            0 => ScalarValue::Float64(Some([0.0, -0.0, 1.0, 2.5, f64::INFINITY, f64::NAN][small as usize])),
            1 => ScalarValue::Decimal128(Some(small * 50), 10, 2),
            _ => ScalarValue::Float32(Some(small as f32)),
        },
        "d" => ScalarValue::Date32(Some(small as i32 + 18_000)),
        _ => match chance.random_range(0..4) {
            0 => ScalarValue::Int32(Some(small as i32)),
            1 => ScalarValue::Int16(Some(small as i16)),
            2 => ScalarValue::UInt64(Some(small as u64)),
            _ => ScalarValue::Int64(Some(small as i64)),
        },
    }
}

/// `column = $n` for each column of the key, with the next numbers.
fn conditions(key: &[&str], from: usize) -> String {
    let of = |(at, column): (usize, &&str)| format!("{column} = ${}", from + at);
    key.iter().enumerate().map(of).collect::<Vec<_>>().join(" AND ")
}

/// ON CONFLICT in several forms, with its values.
fn on_conflict(chance: &mut StdRng, key: &[&str], columns: &[&str], values: &mut Vec<ScalarValue>) -> String {
    let (key, column) = (key.join(", "), columns[chance.random_range(0..columns.len())]);
    match chance.random_range(0..8) {
        0 => " ON CONFLICT DO NOTHING".to_owned(),
        1 => format!(" ON CONFLICT ({key}) DO NOTHING"),
        2 => format!(" ON CONFLICT ({key}) DO UPDATE SET {column} = excluded.{column}"),
        3 => format!(" ON CONFLICT ({key}) DO UPDATE SET a = t.a + excluded.a - 1, {column} = NULL")
            .replace("a = NULL", "s = 'z'"),
        4 => {
            values.push(value(chance, column));
            format!(" ON CONFLICT ({key}) DO UPDATE SET {column} = ${}", values.len())
        }
        5 => format!(" ON CONFLICT ({key}) DO UPDATE SET a = a + 1"),
        _ => String::new(),
    }
}

/// The text with literals instead of parameters, if all values have literals.
fn with_literals(text: &str, values: &[ScalarValue]) -> Option<String> {
    let mut text = text.to_owned();
    for (at, value) in values.iter().enumerate().rev() {
        let literal = match value {
            ScalarValue::Null => "NULL".to_owned(),
            ScalarValue::Utf8(Some(text)) => format!("'{}'", text.replace('\'', "''")),
            ScalarValue::Int64(Some(value)) => value.to_string(),
            ScalarValue::Int32(Some(value)) => value.to_string(),
            ScalarValue::Boolean(Some(value)) => value.to_string(),
            _ => return None,
        };
        text = text.replace(&format!("${}", at + 1), &literal);
    }
    Some(text)
}

/// A statement, the same in a form that is planned, and its values.
fn statement(chance: &mut StdRng, key: &[&str], columns: &[&str]) -> (String, String, Vec<ScalarValue>) {
    let mut values = vec![];
    let number = columns[chance.random_range(0..columns.len())];
    let kind = chance.random_range(0..9);
    let returning = match (chance.random_range(0..4), kind) {
        (_, 7..) => String::new(),
        (0, _) => " RETURNING *".to_owned(),
        (1, _) => format!(" RETURNING {number}, a AS {number}_2, t.{number}"),
        _ => String::new(),
    };
    let text = match kind.min(7) {
        0..=2 => {
            values.extend(columns.iter().map(|column| value(chance, column)));
            let cells = |form: &dyn Fn(usize) -> String| (1..=columns.len()).map(form).collect::<Vec<_>>().join(", ");
            let names = columns.join(", ");
            let on = on_conflict(chance, key, columns, &mut values);
            let of = |cells: String| format!("INSERT INTO t ({names}) VALUES ({cells}){on}{returning}");
            return (of(cells(&|n| format!("${n}"))), of(cells(&|n| format!("(${n})"))), values);
        }
        3 => {
            values.push(value(chance, number));
            format!("UPDATE t SET {number} = $1 WHERE {}", conditions(key, 2))
        }
        4 => {
            values.push(value(chance, "a"));
            format!("UPDATE t SET a = a + $1 * 2 - 1 WHERE {}", conditions(key, 2))
        }
        5 | 6 if chance.random_range(0..3) > 0 => format!("DELETE FROM t WHERE {}", conditions(key, 1)),
        5..=7 if chance.random_range(0..2) == 0 => format!("SELECT * FROM t WHERE {}", conditions(key, 1)),
        _ => format!("SELECT {number}, id AS k, x.id FROM t x WHERE {}", conditions(key, 1)).replace("x.id", "a"),
    };
    values.extend(key.iter().map(|column| value(chance, column)));
    let behind = match text.strip_prefix("SELECT") {
        Some(rest) => return query(chance, rest, values),
        None => returning,
    };
    (format!("{text}{behind}"), format!("{text} AND TRUE{behind}"), values)
}

/// A query, mostly a point query, and sometimes one with another clause.
fn query(chance: &mut StdRng, rest: &str, values: Vec<ScalarValue>) -> (String, String, Vec<ScalarValue>) {
    const BEHIND: [&str; 9] = [
        " LIMIT 0",
        " LIMIT 1 OFFSET 1",
        " OFFSET 1",
        " FETCH FIRST 0 ROWS ONLY",
        " ORDER BY 1",
        " FOR UPDATE",
        " QUALIFY row_number() OVER () > 1",
        " UNION ALL SELECT NULL, NULL, NULL WHERE FALSE",
        " USING SAMPLE 0 ROWS",
    ];
    let behind = if chance.random_range(0..3) == 0 { BEHIND[chance.random_range(0..BEHIND.len())] } else { "" };
    let select = if chance.random_range(0..8) == 0 { "SELECT DISTINCT" } else { "SELECT" };
    (format!("{select}{rest}{behind}"), format!("{select}{rest} AND TRUE{behind}"), values)
}

/// The number of the newest version of each database.
async fn versions(pair: &Pair) -> [String; 2] {
    let newest = "SELECT max(version) AS v FROM freestone_versions()";
    let number = async |session: &Session| {
        let batches = session.sql(newest).await.expect(newest).collect().await.expect(newest);
        text(&batches)
    };
    [number(&pair.point).await, number(&pair.planned).await]
}

/// Queries of rows as they were, by key: in the versions that each step leaves, while the rows change.
#[tokio::test(flavor = "multi_thread")]
async fn random_point_queries_of_earlier_versions_are_like_planned_ones() {
    for (seed, (table, key, columns)) in TABLES.iter().enumerate() {
        let mut chance = StdRng::seed_from_u64(100 + seed as u64);
        let columns: Vec<&str> = columns.to_vec();
        let pair = Pair::new(table).await;
        pair.same("SET retention = 3600", "SET retention = 3600", &[]).await;
        let mut known = vec![versions(&pair).await];
        for _ in 0..150 {
            let (point, planned, values) = statement(&mut chance, &columns[..*key], &columns);
            pair.same(&point, &planned, &values).await;
            known.push(versions(&pair).await);
            let [mine, other] = &known[chance.random_range(0..known.len())];
            let conditions = conditions(&columns[..*key], 1);
            let number = columns[chance.random_range(0..columns.len())];
            let values: Vec<ScalarValue> = columns[..*key].iter().map(|column| value(&mut chance, column)).collect();
            let of = |version: &str| {
                format!("SELECT {number}, x.* FROM t AT (VERSION => {version}) AS x WHERE {conditions}")
            };
            let (point, planned) = (of(mine), format!("{} AND TRUE", of(other)));
            for _ in 0..2 {
                pair.same(&point, &planned, &values).await;
            }
            if let (Some(point), Some(planned)) = (with_literals(&point, &values), with_literals(&planned, &values)) {
                pair.same(&point, &planned, &[]).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_point_statements_are_like_planned_ones() {
    for (seed, (table, key, columns)) in TABLES.iter().enumerate() {
        let mut chance = StdRng::seed_from_u64(seed as u64);
        let columns: Vec<&str> = columns.to_vec();
        let pair = Pair::new(table).await;
        for step in 0..300 {
            let control = match chance.random_range(0..16) {
                0 => Some("BEGIN"),
                1 => Some("COMMIT"),
                2 => Some("ROLLBACK"),
                3 => Some("SAVEPOINT s"),
                4 => Some("ROLLBACK TO s"),
                _ => None,
            };
            match control {
                Some(control) => pair.same(control, control, &[]).await,
                None => {
                    let (point, planned, values) = statement(&mut chance, &columns[..*key], &columns);
                    let literals = with_literals(&point, &values).zip(with_literals(&planned, &values));
                    match literals.filter(|_| chance.random_range(0..3) > 0) {
                        Some((point, planned)) => pair.same(&point, &planned, &[]).await,
                        None => pair.same(&point, &planned, &values).await,
                    }
                }
            }
            if step % 50 == 49 {
                pair.same("ROLLBACK", "ROLLBACK", &[]).await;
                pair.same("SELECT * FROM t", "SELECT * FROM t", &[]).await;
                pair.same("VACUUM", "VACUUM", &[]).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_are_like_planned_ones() {
    let pair = Pair::new(TABLES[0].0).await;
    for (point, planned) in [
        (
            "PREPARE add AS INSERT INTO t VALUES ($1, $2, $3, NULL)",
            "PREPARE add AS INSERT INTO t VALUES ($1, $2, ($3), NULL)",
        ),
        (
            "PREPARE get (BIGINT) AS SELECT * FROM t WHERE id = $1",
            "PREPARE get (BIGINT) AS SELECT * FROM t WHERE id = $1 AND TRUE",
        ),
        (
            "PREPARE put AS UPDATE t SET a = $2 WHERE id = $1",
            "PREPARE put AS UPDATE t SET a = $2 WHERE id = $1 AND TRUE",
        ),
    ] {
        pair.same(point, planned, &[]).await;
    }
    pair.same("SET retention = 3600", "SET retention = 3600", &[]).await;
    for sql in [
        "EXECUTE add(1, 2, 'x')",
        "EXECUTE add(1, 2, 'y')",
        "EXECUTE add(2, NULL, NULL)",
        "EXECUTE add('3', '4', 5)",
        "EXECUTE add(4, 1000, 'z')",
        "EXECUTE add(4, 10000000000, 'z')",
        "EXECUTE get(1)",
        "EXECUTE get('1')",
        "EXECUTE get(1.5)",
        "EXECUTE get(-1)",
        "EXECUTE get(NULL)",
        "EXECUTE put(1, 7)",
        "EXECUTE put(1, '8')",
        "EXECUTE put(1, 1 + 1)",
        "EXECUTE put(9, 7)",
        "SELECT * FROM t",
    ] {
        pair.same(sql, sql, &[]).await;
    }
    let past = versions(&pair).await;
    pair.same("UPDATE t SET a = 50", "UPDATE t SET a = 50", &[]).await;
    let get = |version: &str| format!("PREPARE past AS SELECT * FROM t AT (VERSION => {version}) WHERE id = $1");
    pair.same(&get(&past[0]), &format!("{} AND TRUE", get(&past[1])), &[]).await;
    for sql in ["EXECUTE past(1)", "EXECUTE past(1)", "EXECUTE get(1)", "DELETE FROM t", "EXECUTE past(2)"] {
        pair.same(sql, sql, &[]).await;
    }
}
