//! Random tables, designs and queries.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType, Field, Schema};
use freestone_advisor::TableStatistics;
use freestone_advisor::workload::{Output, PredicateForm, Query, QueryPredicate};
use freestone_codec::{BytesPredicate, IntPredicate, Predicate};
use freestone_store::design::Design;
use freestone_store::scan::ColumnPredicate;
use freestone_store::schema::TableSchema;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

/// The distribution of a column's values.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// 32 or 64 bits, with a number of distinct values, in random order.
    Uniform {
        distinct: u64,
        wide: bool,
    },
    /// Most rows have a few values.
    Skewed {
        distinct: u64,
    },
    /// Ascending with the rows, by small random steps.
    Rising,
    /// Runs of equal values.
    Runs {
        run: usize,
        distinct: u64,
    },
    /// Near the row's number, like dates of arrival.
    Near {
        spread: u64,
    },
    Decimal,
    Float,
    /// Words from a vocabulary.
    Words {
        distinct: u64,
        length: usize,
    },
    /// Strings that hardly repeat.
    Text {
        length: usize,
    },
    Nullable {
        distinct: u64,
    },
}

pub struct RandomTable {
    pub rows: usize,
    pub kinds: Vec<Kind>,
    pub batch: RecordBatch,
    pub schema: TableSchema,
}

impl RandomTable {
    pub fn new(random: &mut StdRng) -> RandomTable {
        let count = *[4usize, 6, 8, 10, 12, 16, 24, 36, 50].get(random.random_range(0..9)).unwrap_or(&8);
        // Wide tables have fewer rows, so that each takes about the same time to create.
        let rows = (random.random_range(1_500_000..6_000_000) / count).clamp(60_000, 700_000);
        let kinds: Vec<Kind> = (0..count).map(|_| kind(random)).collect();
        let arrays: Vec<ArrayRef> = kinds.iter().map(|kind| array(*kind, rows, random)).collect();
        let field = |(at, array): (usize, &ArrayRef)| Field::new(format!("c{at}"), array.data_type().clone(), true);
        let schema = Arc::new(Schema::new(arrays.iter().enumerate().map(field).collect::<Vec<_>>()));
        let batch = RecordBatch::try_new(schema.clone(), arrays).expect("columns of the same length");
        let schema = TableSchema::from_arrow(&schema).expect("types that can be stored");
        RandomTable { rows, kinds, batch, schema }
    }
}

fn kind(random: &mut StdRng) -> Kind {
    let distinct = |random: &mut StdRng| 10u64.pow(random.random_range(1..7)) * random.random_range(1..9);
    match random.random_range(0..12) {
        0..=2 => Kind::Uniform { distinct: distinct(random), wide: random.random() },
        3 => Kind::Skewed { distinct: distinct(random) },
        4 => Kind::Rising,
        5 => Kind::Runs { run: random.random_range(3..300), distinct: distinct(random) },
        6 => Kind::Near { spread: 1 << random.random_range(4..16) },
        7 => Kind::Decimal,
        8 => Kind::Float,
        9 => Kind::Words { distinct: random.random_range(3..2000), length: random.random_range(3..30) },
        10 => Kind::Text { length: random.random_range(8..60) },
        _ => Kind::Nullable { distinct: distinct(random) },
    }
}

fn array(kind: Kind, rows: usize, random: &mut StdRng) -> ArrayRef {
    match kind {
        Kind::Uniform { distinct, wide: true } => {
            let step = (i64::MAX as u64 / distinct).min(1 << 20) as i64;
            Arc::new(Int64Array::from_iter_values((0..rows).map(|_| random.random_range(0..distinct) as i64 * step)))
        }
        Kind::Uniform { distinct, .. } => {
            Arc::new(Int32Array::from_iter_values((0..rows).map(|_| random.random_range(0..distinct) as i32)))
        }
        Kind::Skewed { distinct } => {
            let value = |u: f64| (distinct as f64).powf(u * u * u) as i64;
            Arc::new(Int64Array::from_iter_values((0..rows).map(|_| value(random.random()))))
        }
        Kind::Rising => {
            let mut at = 0;
            let mut next = || {
                at += random.random_range(0..50);
                at
            };
            Arc::new(Int64Array::from_iter_values((0..rows).map(|_| next())))
        }
        Kind::Runs { run, distinct } => {
            let values: Vec<i32> = (0..rows.div_ceil(run)).map(|_| random.random_range(0..distinct) as i32).collect();
            Arc::new(Int32Array::from_iter_values((0..rows).map(|row| values[row / run])))
        }
        Kind::Near { spread } => Arc::new(Int32Array::from_iter_values(
            (0..rows).map(|row| (row as u64 + random.random_range(0..spread)) as i32 / 100),
        )),
        Kind::Decimal => {
            let values = (0..rows).map(|_| i128::from(random.random_range(0..5_000_000)));
            Arc::new(Decimal128Array::from_iter_values(values).with_precision_and_scale(12, 2).expect("a decimal"))
        }
        Kind::Float => Arc::new(Float64Array::from_iter_values(
            (0..rows).map(|_| f64::from(random.random_range(0..10_000_000)) / 1000.0),
        )),
        Kind::Words { distinct, length } => {
            let words: Vec<String> = (0..distinct).map(|_| text(length, random)).collect();
            let draw = (0..rows).map(|_| words[random.random_range(0..distinct) as usize].clone());
            Arc::new(StringViewArray::from_iter_values(draw.collect::<Vec<_>>()))
        }
        Kind::Text { length } => {
            let texts = (0..rows).map(|_| text(random.random_range(length / 2..=length), random));
            Arc::new(StringViewArray::from_iter_values(texts.collect::<Vec<_>>()))
        }
        Kind::Nullable { distinct } => {
            let value = |random: &mut StdRng| random.random_range(0..distinct) as i64;
            Arc::new(Int64Array::from_iter((0..rows).map(|_| random.random_bool(0.85).then(|| value(random)))))
        }
    }
}

fn text(length: usize, random: &mut StdRng) -> String {
    const PARTS: [&str; 12] = ["ab", "er", " in", "the", "ou", "s", "ing ", "a", "ter", "x", "re", "qu"];
    let mut text = String::new();
    while text.len() < length {
        text.push_str(PARTS[random.random_range(0..PARTS.len())]);
    }
    text.truncate(length);
    text
}

/// The first design is a plain column store, from which the statistics come.
pub fn designs(table: &RandomTable, random: &mut StdRng) -> Vec<Design> {
    const COUNT: usize = 6;
    let mut designs = vec![design(&[("design".into(), "column".into())], table)];
    while designs.len() < COUNT {
        let mut options: Vec<(String, String)> = vec![];
        let name = |column: usize| table.schema.columns[column].name.clone();
        match random.random_range(0..5) {
            0 => options.push(("design".into(), "row".into())),
            1 => options.push(("design".into(), "slotted".into())),
            2 => options.push(("design".into(), "pax".into())),
            3 => options.push(("design".into(), "column".into())),
            _ => {
                let mut columns: Vec<usize> = (0..table.kinds.len()).collect();
                columns.shuffle(random);
                let mut groups = vec![];
                while columns.len() > 1 && groups.len() < 4 {
                    let size = random.random_range(2..=columns.len().min(12));
                    let own: Vec<String> = columns.drain(..size).map(name).collect();
                    groups.push(format!("({})", own.join(", ")));
                }
                options.push(("groups".into(), groups.join(", ")));
                let page = ["dense", "dense", "pax", "slotted"][random.random_range(0..4)];
                options.push(("page".into(), page.into()));
            }
        }
        if random.random_bool(0.25) {
            let size = ["8KiB", "16KiB", "64KiB", "128KiB"][random.random_range(0..4)];
            options.push(("page_size".into(), size.into()));
        }
        if random.random_bool(0.4) {
            let first = random.random_range(0..table.kinds.len());
            let second = random.random_range(0..table.kinds.len());
            let both = random.random_bool(0.5) && first != second;
            options
                .push(("sort".into(), if both { format!("{}, {}", name(first), name(second)) } else { name(first) }));
            let is_slotted = options.iter().any(|(_, value)| value == "slotted");
            if random.random_bool(0.3) && !is_slotted {
                options.push(("levels".into(), "1".into()));
            }
        }
        designs.push(design(&options, table));
    }
    // The last design again, with an index of each column.
    let columns: Vec<String> = table.schema.columns.iter().map(|column| format!("({})", column.name)).collect();
    let index = Some(("index".to_owned(), columns.join(", ")));
    let last = designs[COUNT - 1].clone();
    let options: Vec<_> =
        last.to_options().into_iter().map(|(name, value)| (name.to_owned(), value)).chain(index).collect();
    designs.push(design(&options, table));
    designs
}

fn design(options: &[(String, String)], table: &RandomTable) -> Design {
    let options = options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    Design::default().with_options(options, &table.schema).expect("a valid design")
}

/// A query for the model, and for the store.
pub struct RandomQuery {
    pub query: Query,
    pub predicates: Vec<ColumnPredicate>,
}

pub fn queries(table: &RandomTable, statistics: &TableStatistics, random: &mut StdRng) -> Vec<RandomQuery> {
    (0..8).map(|number| query(number, table, statistics, random)).collect()
}

fn query(number: usize, table: &RandomTable, statistics: &TableStatistics, random: &mut StdRng) -> RandomQuery {
    let count = table.kinds.len();
    let mut all: Vec<usize> = (0..count).collect();
    all.shuffle(random);
    let few = random.random_range(1..=count.min(6));
    let taken = if random.random_bool(0.2) { random.random_range(1..=count) } else { few };
    let mut columns = all[..taken].to_vec();
    columns.sort_unstable();
    all.shuffle(random);
    let (mut asked, mut predicates) = (vec![], vec![]);
    for column in all.into_iter().take(random.random_range(0..=3)) {
        if let Some((form, predicate)) = predicate(column, table, statistics, random) {
            let selectivity = statistics.selectivity(column, &predicate);
            asked.push(QueryPredicate { column, selectivity, form });
            predicates.push(ColumnPredicate { column, predicate });
        }
    }
    let output = if random.random_bool(0.2) { Output::Rows } else { Output::Columns };
    let tests: Vec<String> =
        asked.iter().map(|p| format!("c{} {:?} {:.2e}", p.column, p.form, p.selectivity)).collect();
    let kinds: Vec<String> = columns.iter().take(8).map(|c| format!("c{c} {:?}", table.kinds[*c])).collect();
    let name = format!(
        "{number} {output:?}: {} of {count} [{}] where {}",
        columns.len(),
        kinds.join("; "),
        tests.join(" and ")
    );
    let query = Query {
        name,
        weight: 1.0,
        columns,
        predicates: asked,
        output,
        order: vec![],
        paths: vec![],
        statement_ms: None,
    };
    RandomQuery { query, predicates }
}

fn predicate(
    column: usize,
    table: &RandomTable,
    statistics: &TableStatistics,
    random: &mut StdRng,
) -> Option<(PredicateForm, Predicate)> {
    let share = 10f64.powf(-random.random_range(0.1..4.0));
    let from = random.random_range(0.0..1.0 - share);
    if table.schema.columns[column].data_type == DataType::Utf8View {
        let values = table.batch.column(column).as_any().downcast_ref::<StringViewArray>()?;
        let value = values.value(random.random_range(0..table.rows)).as_bytes().to_vec();
        return Some(match random.random_bool(0.5) {
            true => (PredicateForm::Equal, Predicate::Bytes(BytesPredicate::In(vec![value]))),
            false => {
                let prefix = value[..value.len().min(2)].to_vec();
                (PredicateForm::Range, Predicate::Bytes(BytesPredicate::Prefix(prefix)))
            }
        });
    }
    let (low, high) = statistics.range(column, from, share)?;
    Some(match random.random_bool(0.3) {
        true => (PredicateForm::Equal, Predicate::Int(IntPredicate::Range { low, high: low })),
        false => (PredicateForm::Range, Predicate::Int(IntPredicate::Range { low, high })),
    })
}
