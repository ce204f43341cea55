//! Random histories of ALTER TABLE, writes, VACUUM and reopening, against a model: what the table's rows must be after
//! every step.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use freestone::{Database, Options, Session};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// A column as the model knows it.
#[derive(Debug, Clone)]
struct Column {
    name: String,
    /// How wide it is: its place in [`TYPES`].
    width: usize,
    is_text: bool,
    default: Option<i64>,
}

const TYPES: [&str; 3] = ["SMALLINT", "INT", "BIGINT"];

/// Values that texts and numbers are made of.
type Value = Option<i64>;

/// A table of a key, which never changes, and of columns that do.
#[derive(Debug, Clone, Default)]
struct Model {
    columns: Vec<Column>,
    rows: Vec<(i64, Vec<Value>)>,
    next_key: i64,
    next_name: usize,
}

fn literal(column: &Column, value: Value) -> String {
    match value {
        None => "NULL".into(),
        Some(value) if column.is_text => format!("'text {value}'"),
        Some(value) => value.to_string(),
    }
}

impl Model {
    fn any_column(&self, random: &mut StdRng) -> Option<usize> {
        (!self.columns.is_empty()).then(|| random.random_range(0..self.columns.len()))
    }

    fn new_name(&mut self, random: &mut StdRng) -> String {
        // Names come again, for other columns.
        self.next_name += 1;
        let free = (0..4).map(|at| format!("c{at}")).find(|name| self.columns.iter().all(|c| c.name != *name));
        free.filter(|_| random.random_bool(0.7)).unwrap_or(format!("n{}", self.next_name))
    }

    /// A random change: of the model, and the statement that makes it.
    fn step(&mut self, random: &mut StdRng) -> String {
        match random.random_range(0..100) {
            0..14 => self.add(random),
            14..24 => self.drop(random),
            24..32 => self.rename(random),
            32..38 => self.widen(random),
            38..44 => self.set_default(random),
            44..64 => self.insert(random),
            64..76 => self.update(random),
            76..86 => self.delete(random),
            _ => "VACUUM t".into(),
        }
    }

    fn add(&mut self, random: &mut StdRng) -> String {
        let default = random.random_bool(0.6).then(|| random.random_range(-3..4));
        let (is_text, width) = (random.random_bool(0.3), random.random_range(0..3));
        let column = Column { name: self.new_name(random), width, is_text, default };
        let of_type = if is_text { "VARCHAR" } else { TYPES[width] };
        let text = default.map(|_| format!(" DEFAULT {}", literal(&column, default))).unwrap_or_default();
        let sql = format!("ALTER TABLE t ADD COLUMN {} {of_type}{text}", column.name);
        self.rows.iter_mut().for_each(|(_, values)| values.push(default));
        self.columns.push(column);
        sql
    }

    fn drop(&mut self, random: &mut StdRng) -> String {
        let Some(at) = self.any_column(random) else { return "VACUUM t".into() };
        self.rows.iter_mut().for_each(|(_, values)| {
            values.remove(at);
        });
        format!("ALTER TABLE t DROP COLUMN {}", self.columns.remove(at).name)
    }

    fn rename(&mut self, random: &mut StdRng) -> String {
        let Some(at) = self.any_column(random) else { return "VACUUM t".into() };
        let name = self.new_name(random);
        let old = std::mem::replace(&mut self.columns[at].name, name.clone());
        format!("ALTER TABLE t RENAME COLUMN {old} TO {name}")
    }

    fn widen(&mut self, random: &mut StdRng) -> String {
        let Some(at) = self.any_column(random) else { return "VACUUM t".into() };
        let column = &mut self.columns[at];
        if column.is_text || column.width == 2 {
            return "VACUUM t".into();
        }
        column.width = random.random_range(column.width + 1..3);
        format!("ALTER TABLE t ALTER COLUMN {} TYPE {}", column.name, TYPES[column.width])
    }

    fn set_default(&mut self, random: &mut StdRng) -> String {
        let Some(at) = self.any_column(random) else { return "VACUUM t".into() };
        let column = &mut self.columns[at];
        column.default = random.random_bool(0.7).then(|| random.random_range(-3..4));
        match column.default {
            Some(_) => format!("ALTER TABLE t ALTER {} SET DEFAULT {}", column.name, literal(column, column.default)),
            None => format!("ALTER TABLE t ALTER {} DROP DEFAULT", column.name),
        }
    }

    fn insert(&mut self, random: &mut StdRng) -> String {
        let count = if random.random_bool(0.1) { 3000 } else { random.random_range(1..5) };
        let given: Vec<bool> = self.columns.iter().map(|_| random.random_bool(0.6)).collect();
        let values: Vec<Value> = self
            .columns
            .iter()
            .zip(&given)
            .map(|(column, given)| match given {
                true => random.random_bool(0.8).then(|| random.random_range(-3..4)),
                false => column.default,
            })
            .collect();
        let named = self.columns.iter().zip(&values).zip(&given).filter(|(_, given)| **given);
        let (mut names, mut items) = ("key".to_owned(), "i".to_owned());
        for ((column, value), _) in named {
            names += &format!(", {}", column.name);
            items += &format!(", {}", literal(column, *value));
        }
        let first = self.next_key;
        self.next_key += count;
        self.rows.extend((first..first + count).map(|key| (key, values.clone())));
        format!("INSERT INTO t ({names}) SELECT {items} FROM generate_series({first}, {}) AS g (i)", first + count - 1)
    }

    fn update(&mut self, random: &mut StdRng) -> String {
        let Some(at) = self.any_column(random) else { return "VACUUM t".into() };
        let value = random.random_bool(0.8).then(|| random.random_range(-3..4));
        let (by, wanted) = (random.random_range(0..self.columns.len()), random.random_range(-3..4));
        let sql = format!(
            "UPDATE t SET {} = {} WHERE {} = {} OR key % 7 = {}",
            self.columns[at].name,
            literal(&self.columns[at], value),
            self.columns[by].name,
            literal(&self.columns[by], Some(wanted)),
            wanted + 3
        );
        for (key, values) in &mut self.rows {
            if values[by] == Some(wanted) || *key % 7 == wanted + 3 {
                values[at] = value;
            }
        }
        sql
    }

    fn delete(&mut self, random: &mut StdRng) -> String {
        let Some(by) = self.any_column(random) else { return "VACUUM t".into() };
        let wanted = random.random_range(-3..4);
        self.rows.retain(|(key, values)| !(values[by] == Some(wanted) && key % 3 == 0));
        let column = &self.columns[by];
        format!("DELETE FROM t WHERE {} = {} AND key % 3 = 0", column.name, literal(column, Some(wanted)))
    }

    /// Compares rows, and the answers of pruning and aggregation to each column's values.
    async fn check(&self, session: &Session, told: &str) {
        let names: String = self.columns.iter().map(|column| format!(", {}::VARCHAR", column.name)).collect();
        let mut found: Vec<(i64, Vec<Option<String>>)> = vec![];
        let all = session.sql(&format!("SELECT key{names} FROM t")).await.unwrap_or_else(|e| panic!("{told}: {e}"));
        for batch in all.collect().await.unwrap_or_else(|e| panic!("{told}: {e}")) {
            let keys = batch.column(0).as_primitive::<Int64Type>();
            for row in 0..batch.num_rows() {
                let text = |column: &Arc<dyn Array>| {
                    let texts = arrow::compute::cast(column, &arrow::datatypes::DataType::Utf8).unwrap();
                    texts.is_valid(row).then(|| texts.as_string::<i32>().value(row).to_owned())
                };
                found.push((keys.value(row), batch.columns()[1..].iter().map(text).collect()));
            }
        }
        found.sort();
        let text = |(column, value): (&Column, &Value)| {
            value.map(|value| if column.is_text { format!("text {value}") } else { value.to_string() })
        };
        let row = |(key, values): &(i64, Vec<Value>)| (*key, self.columns.iter().zip(values).map(text).collect());
        let expected: Vec<(i64, Vec<Option<String>>)> = self.rows.iter().map(row).collect();
        assert_eq!(found, expected, "{told}");
        for (at, column) in self.columns.iter().enumerate() {
            for wanted in [-3, 0, 2] {
                let value = literal(column, Some(wanted));
                let sql = format!("SELECT count(*) FROM t WHERE {} = {value}", column.name);
                let count = self.rows.iter().filter(|(_, values)| values[at] == Some(wanted)).count();
                assert_eq!(number(session, &sql).await, Some(count as i64), "{sql} after {told}");
            }
            let sql = format!("SELECT count(*) FROM t WHERE {} IS NULL", column.name);
            let nulls = self.rows.iter().filter(|(_, values)| values[at].is_none()).count();
            assert_eq!(number(session, &sql).await, Some(nulls as i64), "{sql} after {told}");
            if !column.is_text {
                let sql = format!("SELECT sum({})::BIGINT FROM t", column.name);
                let sum = self.rows.iter().filter_map(|(_, values)| values[at]).reduce(|a, b| a + b);
                assert_eq!(number(session, &sql).await, sum, "{sql} after {told}");
            }
        }
    }
}

async fn number(session: &Session, sql: &str) -> Option<i64> {
    let batches = session.sql(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}")).collect().await.unwrap();
    let column = batches[0].column(0).as_primitive::<Int64Type>();
    column.is_valid(0).then(|| column.value(0))
}

fn open(path: &Path) -> Arc<Database> {
    let options = Options { threads: 2, memory_limit: Some(1 << 30), ..Options::default() };
    Database::open(path, options).unwrap()
}

async fn history(design: &str, seed: u64, steps: usize) {
    let mut random = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut database = open(&path);
    let mut session = database.session();
    session.sql(&format!("CREATE TABLE t (key BIGINT) WITH ({design})")).await.unwrap();
    let mut model = Model::default();
    let mut done: Vec<String> = vec![];
    // Inside a transaction: the model at its beginning.
    let mut before: Option<Model> = None;
    for step in 0..steps {
        match random.random_range(0..20) {
            0 if before.is_none() => {
                session.sql("BEGIN").await.unwrap();
                before = Some(model.clone());
                done.push("BEGIN".into());
            }
            1..4 if before.is_some() => {
                let commits = random.random_bool(0.5);
                let sql = if commits { "COMMIT" } else { "ROLLBACK" };
                session.sql(sql).await.unwrap();
                let old = before.take().unwrap();
                if !commits {
                    model = old;
                }
                done.push(sql.into());
            }
            4 if before.is_none() => {
                drop(session);
                drop(database);
                database = open(&path);
                session = database.session();
                done.push("reopened".into());
            }
            _ => {
                let sql = model.step(&mut random);
                if before.is_some() && sql.starts_with("VACUUM") {
                    continue;
                }
                done.push(sql.clone());
                let result = session.sql(&sql).await;
                result.unwrap_or_else(|error| panic!("{design}, seed {seed}: {}: {error}", done.join("; ")));
            }
        }
        if step % 3 == 0 || step + 1 == steps {
            model.check(&session, &format!("{design}, seed {seed}: {}", done.join("; "))).await;
        }
    }
    if before.is_some() {
        session.sql("COMMIT").await.unwrap();
    }
    let damage = session.sql("CHECK t").await.unwrap().collect().await.unwrap();
    assert!(damage.iter().all(|batch| batch.num_rows() == 0), "{design}, seed {seed}: {}", done.join("; "));
}

fn histories(design: &'static str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for seed in 0..4 {
        runtime.block_on(history(design, seed, 60));
    }
}

#[test]
fn columns_change_in_column_groups() {
    histories("preset = 'column'");
}

#[test]
fn columns_change_in_rows() {
    histories("preset = 'row', sort = 'key'");
}

#[test]
fn columns_change_in_slotted_pages() {
    histories("preset = 'slotted', page_size = '4KiB'");
}

#[test]
fn columns_change_in_clustered_rows() {
    histories("preset = 'pax', cluster = 'key'");
}

#[test]
fn columns_change_beside_an_index() {
    histories("preset = 'auto', index = 'key'");
}
