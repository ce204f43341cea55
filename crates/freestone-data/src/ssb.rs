//! The five tables of the Star Schema Benchmark: lineorder, customer, supplier, part and date.
//!
//! Names, domains and cardinalities are those of the specification (O'Neil, O'Neil and Chen, revision 3, 2009), or
//! those of TPC-H where it says nothing. The rows are synthetic and seeded, and differ from those of other generators.
//! Every order, and every row of a dimension, has random numbers of its own, so that parts can be generated in parallel
//! and the rows do not depend on the number of parts.
//!
//! - Money is whole cents, percentages are whole numbers, dates are `yyyymmdd`: Int32. `lo_orderkey` is Int64.
//! - Strings are Utf8 without padding, except that a city pads its nation to nine characters. No column is nullable.
//! - `part` has 200,000 × ⌊1 + log2 SF⌋ rows from scale factor 1, and 200,000 × SF below, where the formula gives none.
//! - `date` has 2,556 rows, so it ends with 30 December 1998. Order dates end with 2 August 1998, as in TPC-H.
//! - Holidays and selling seasons, which the specification leaves open, are fixed ranges of the calendar.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, Int8Array, Int32Array, Int64Array, RecordBatch, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use tpchgen::distribution::{Distribution, Distributions};

use super::random::Random;
use super::{BATCH_ROWS, Batches, WriteError, parallel};

/// The default seed.
pub const SEED: u64 = 2009;

const DAYS: usize = 2_556;
const LAST_ORDER_DATE: i32 = 19_980_802;
/// The number of orders in a row group of lineorder: about four lines each, so that it rarely exceeds
/// [`super::ROW_GROUP_ROWS`].
const GROUP_ORDERS: u64 = 30_000;

/// The table names, dimensions before facts, so that foreign keys are satisfied when tables are loaded in this order.
pub fn tables() -> [&'static str; 5] {
    ["date", "part", "supplier", "customer", "lineorder"]
}

/// The schema of a table. `None` if the benchmark has no table of that name.
pub fn schema(name: &str) -> Option<SchemaRef> {
    use DataType::{Int8, Int32, Int64, Utf8};
    let columns: &[(&str, DataType)] = match name {
        "lineorder" => &[
            ("lo_orderkey", Int64),
            ("lo_linenumber", Int32),
            ("lo_custkey", Int32),
            ("lo_partkey", Int32),
            ("lo_suppkey", Int32),
            ("lo_orderdate", Int32),
            ("lo_orderpriority", Utf8),
            ("lo_shippriority", Utf8),
            ("lo_quantity", Int32),
            ("lo_extendedprice", Int32),
            ("lo_ordtotalprice", Int32),
            ("lo_discount", Int32),
            ("lo_revenue", Int32),
            ("lo_supplycost", Int32),
            ("lo_tax", Int32),
            ("lo_commitdate", Int32),
            ("lo_shipmode", Utf8),
        ],
        "part" => &[
            ("p_partkey", Int32),
            ("p_name", Utf8),
            ("p_mfgr", Utf8),
            ("p_category", Utf8),
            ("p_brand1", Utf8),
            ("p_color", Utf8),
            ("p_type", Utf8),
            ("p_size", Int32),
            ("p_container", Utf8),
        ],
        "supplier" => &[
            ("s_suppkey", Int32),
            ("s_name", Utf8),
            ("s_address", Utf8),
            ("s_city", Utf8),
            ("s_nation", Utf8),
            ("s_region", Utf8),
            ("s_phone", Utf8),
        ],
        "customer" => &[
            ("c_custkey", Int32),
            ("c_name", Utf8),
            ("c_address", Utf8),
            ("c_city", Utf8),
            ("c_nation", Utf8),
            ("c_region", Utf8),
            ("c_phone", Utf8),
            ("c_mktsegment", Utf8),
        ],
        "date" => &[
            ("d_datekey", Int32),
            ("d_date", Utf8),
            ("d_dayofweek", Utf8),
            ("d_month", Utf8),
            ("d_year", Int32),
            ("d_yearmonthnum", Int32),
            ("d_yearmonth", Utf8),
            ("d_daynuminweek", Int32),
            ("d_daynuminmonth", Int32),
            ("d_daynuminyear", Int32),
            ("d_monthnuminyear", Int32),
            ("d_weeknuminyear", Int32),
            ("d_sellingseason", Utf8),
            ("d_lastdayinweekfl", Int8),
            ("d_lastdayinmonthfl", Int8),
            ("d_holidayfl", Int8),
            ("d_weekdayfl", Int8),
        ],
        _ => return None,
    };
    let fields = columns.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), false));
    Some(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

/// Part `part` (from 0) of `parts` of a table. `None` if the benchmark has no table of that name.
///
/// The parts in order are the whole table, whatever their number, so each thread can generate one.
///
/// # Panics
/// If `part` is not below `parts`.
pub fn table(name: &str, scale_factor: f64, seed: u64, part: usize, parts: usize) -> Option<Batches> {
    assert!(part < parts, "part {part} of {parts}: parts count from 0");
    let units = units(name, scale_factor)?;
    let bound = |part: usize| (u128::from(units) * part as u128 / parts as u128) as u64;
    batches(name, Sizes::of(scale_factor), seed, bound(part)..bound(part + 1))
}

/// Writes the five tables as `{folder}/{table}.parquet`, on all cores. An existing file is complete.
///
/// # Errors
/// The folder or a file cannot be created or written. Files that are already complete remain.
pub fn write_parquet(folder: &Path, scale_factor: f64, seed: u64) -> Result<(), WriteError> {
    let failed = |source: std::io::Error| WriteError { path: folder.to_owned(), source: source.into() };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let labels = [
        ("generator", format!("freestone-lab {}", env!("CARGO_PKG_VERSION"))),
        ("content", "synthetic data after the Star Schema Benchmark's specification".to_owned()),
        ("scale_factor", scale_factor.to_string()),
        ("seed", seed.to_string()),
    ];
    for name in tables() {
        let units = units(name, scale_factor).expect("the name is in tables()");
        let group = if name == "lineorder" { GROUP_ORDERS } else { super::ROW_GROUP_ROWS as u64 };
        let schema = schema(name).expect("the name is in tables()");
        let shape = parallel::Shape { schema, labels: &labels, parts: units.div_ceil(group).max(1) as usize, threads };
        let path = folder.join(format!("{name}.parquet"));
        let unfinished = folder.join(format!("{name}.parquet.unfinished"));
        parallel::write_parquet(&unfinished, &shape, |part| {
            let range = part as u64 * group..((part as u64 + 1) * group).min(units);
            batches(name, Sizes::of(scale_factor), seed, range).expect("the name is in tables()")
        })?;
        std::fs::rename(&unfinished, &path).map_err(failed)?;
    }
    Ok(())
}

/// The number of rows of each table except date; for lineorder, the number of orders.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    orders: u64,
    customers: u32,
    suppliers: u32,
    parts: u32,
}

impl Sizes {
    fn of(scale_factor: f64) -> Sizes {
        let rows = |base: f64| (base * scale_factor).round().max(1.0);
        let parts = if scale_factor < 1.0 { rows(200_000.0) } else { 200_000.0 * (1.0 + scale_factor.log2()).floor() };
        Sizes {
            orders: rows(1_500_000.0) as u64,
            customers: rows(30_000.0) as u32,
            suppliers: rows(2_000.0) as u32,
            parts: parts as u32,
        }
    }
}

/// The number of elements by which a table is divided: orders for lineorder, rows for the others.
fn units(name: &str, scale_factor: f64) -> Option<u64> {
    let sizes = Sizes::of(scale_factor);
    Some(match name {
        "lineorder" => sizes.orders,
        "customer" => sizes.customers.into(),
        "supplier" => sizes.suppliers.into(),
        "part" => sizes.parts.into(),
        "date" => DAYS as u64,
        _ => return None,
    })
}

fn batches(name: &str, sizes: Sizes, seed: u64, units: Range<u64>) -> Option<Batches> {
    let schema = schema(name)?;
    let Range { start, end } = units;
    let in_batches = |rows: fn(Streams, Range<u64>) -> Vec<ArrayRef>, streams: Streams| -> Batches {
        Box::new((start..end).step_by(BATCH_ROWS).map(move |start| {
            let columns = rows(streams, start..end.min(start + BATCH_ROWS as u64));
            RecordBatch::try_new(Arc::clone(&schema), columns).expect("the columns are those of the schema")
        }))
    };
    Some(match name {
        "lineorder" => Box::new(Lines { streams: Streams::new(seed, 1), sizes, orders: start..end }),
        "customer" => in_batches(customers, Streams::new(seed, 2)),
        "supplier" => in_batches(suppliers, Streams::new(seed, 3)),
        "part" => in_batches(parts, Streams::new(seed, 4)),
        _ => in_batches(dates, Streams::new(seed, 5)),
    })
}

/// The random numbers of one table: a sequence for each row.
#[derive(Clone, Copy, Debug)]
struct Streams {
    base: u64,
}

impl Streams {
    fn new(seed: u64, table: u64) -> Streams {
        Streams { base: Random::new(Random::new(seed).next() ^ table).next() }
    }

    fn row(self, number: u64) -> Random {
        Random::new(Random::new(self.base ^ number).next())
    }
}

/// The lines of a range of orders, in batches that contain whole orders.
struct Lines {
    streams: Streams,
    sizes: Sizes,
    orders: Range<u64>,
}

impl Iterator for Lines {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        let mut columns = LineColumns::default();
        while columns.line.len() + 7 <= BATCH_ROWS {
            let Some(order) = self.orders.next() else { break };
            columns.push_order(order, self.sizes, &mut self.streams.row(order));
        }
        (!columns.line.is_empty()).then(|| columns.finish())
    }
}

#[derive(Default)]
struct LineColumns {
    order: Vec<i64>,
    line: Vec<i32>,
    customer: Vec<i32>,
    part: Vec<i32>,
    supplier: Vec<i32>,
    order_date: Vec<i32>,
    priority: Vec<&'static str>,
    quantity: Vec<i32>,
    extended_price: Vec<i32>,
    order_total: Vec<i32>,
    discount: Vec<i32>,
    revenue: Vec<i32>,
    supply_cost: Vec<i32>,
    tax: Vec<i32>,
    commit_date: Vec<i32>,
    ship_mode: Vec<&'static str>,
}

impl LineColumns {
    fn push_order(&mut self, order: u64, sizes: Sizes, random: &mut Random) {
        let words = words();
        // The first 8 of each 32 keys are used.
        let number = order + 1;
        let key = (number >> 3 << 5 | number & 7) as i64;
        let customer = one_to(random, sizes.customers);
        let day = random.below(CALENDAR.order_days) as usize;
        let priority = pick(words.order_priority(), random);
        let lines = one_to(random, 7);
        let mut total = 0;
        for line in 1..=lines {
            let part = one_to(random, sizes.parts);
            let (quantity, discount, tax) = (one_to(random, 50), random.below(11) as i32, random.below(9) as i32);
            let extended_price = quantity * retail_price(part);
            let revenue = (i64::from(extended_price) * i64::from(100 - discount) / 100) as i32;
            total += (i64::from(revenue) * i64::from(100 + tax) / 100) as i32;
            self.order.push(key);
            self.line.push(line);
            self.customer.push(customer);
            self.part.push(part);
            self.supplier.push(one_to(random, sizes.suppliers));
            self.order_date.push(CALENDAR.days[day].key());
            self.priority.push(priority);
            self.quantity.push(quantity);
            self.extended_price.push(extended_price);
            self.discount.push(discount);
            self.revenue.push(revenue);
            self.supply_cost.push(6 * retail_price(part) / 10);
            self.tax.push(tax);
            self.commit_date.push(CALENDAR.days[day + 30 + random.below(61) as usize].key());
            self.ship_mode.push(pick(words.ship_modes(), random));
        }
        self.order_total.extend((0..lines).map(|_| total));
    }

    fn finish(self) -> RecordBatch {
        let ints = |values: Vec<i32>| Arc::new(Int32Array::from(values)) as ArrayRef;
        let rows = self.line.len();
        let columns = vec![
            Arc::new(Int64Array::from(self.order)) as ArrayRef,
            ints(self.line),
            ints(self.customer),
            ints(self.part),
            ints(self.supplier),
            ints(self.order_date),
            Arc::new(StringArray::from(self.priority)),
            Arc::new(StringArray::from_iter_values(std::iter::repeat_n("0", rows))),
            ints(self.quantity),
            ints(self.extended_price),
            ints(self.order_total),
            ints(self.discount),
            ints(self.revenue),
            ints(self.supply_cost),
            ints(self.tax),
            ints(self.commit_date),
            Arc::new(StringArray::from(self.ship_mode)),
        ];
        let schema = schema("lineorder").expect("the benchmark has lineorder");
        RecordBatch::try_new(schema, columns).expect("the columns are those of the schema")
    }
}

/// TPC-H's retail price of a part, in cents.
fn retail_price(part: i32) -> i32 {
    90_000 + part / 10 % 20_001 + 100 * (part % 1_000)
}

fn customers(streams: Streams, rows: Range<u64>) -> Vec<ArrayRef> {
    let mut segments = StringBuilder::new();
    let mut columns = people("Customer", streams, rows, |random| {
        segments.append_value(pick(words().market_segments(), random));
    });
    columns.push(Arc::new(segments.finish()));
    columns
}

fn suppliers(streams: Streams, rows: Range<u64>) -> Vec<ArrayRef> {
    people("Supplier", streams, rows, |_| {})
}

/// Key, name, address, city, nation, region and phone. `more` gets the remaining random numbers.
fn people(kind: &str, streams: Streams, rows: Range<u64>, mut more: impl FnMut(&mut Random)) -> Vec<ArrayRef> {
    let mut texts: [StringBuilder; 6] = Default::default();
    let keys = Int32Array::from_iter_values(rows.clone().map(|row| row as i32 + 1));
    for row in rows {
        let random = &mut streams.row(row);
        let code = random.below(NATIONS.len() as u32) as usize;
        let (nation, region) = NATIONS[code];
        let digits = [100 + random.below(900), 100 + random.below(900), 1_000 + random.below(9_000)];
        let values = [
            format!("{kind}#{:09}", row + 1),
            address(random),
            city(nation, random.below(10)),
            nation.to_owned(),
            REGIONS[region].to_owned(),
            format!("{}-{}-{}-{}", 10 + code, digits[0], digits[1], digits[2]),
        ];
        texts.iter_mut().zip(values).for_each(|(text, value)| text.append_value(value));
        more(random);
    }
    std::iter::once(Arc::new(keys) as ArrayRef)
        .chain(texts.map(|mut text| Arc::new(text.finish()) as ArrayRef))
        .collect()
}

/// The nation's first nine characters, padded to nine, and a digit.
fn city(nation: &str, digit: u32) -> String {
    format!("{nation:9.9}{digit}")
}

/// 10 to 25 characters, like TPC-H's random strings.
fn address(random: &mut Random) -> String {
    const CHARACTERS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ,";
    let length = 10 + random.below(16);
    (0..length).map(|_| char::from(CHARACTERS[random.below(64) as usize])).collect()
}

fn parts(streams: Streams, rows: Range<u64>) -> Vec<ArrayRef> {
    let words = words();
    let mut texts: [StringBuilder; 6] = Default::default();
    let mut sizes = vec![];
    let mut containers = StringBuilder::new();
    let keys = Int32Array::from_iter_values(rows.clone().map(|row| row as i32 + 1));
    for row in rows {
        let random = &mut streams.row(row);
        let name = format!("{} {}", pick(words.part_colors(), random), pick(words.part_colors(), random));
        let (maker, category, brand) = (one_to(random, 5), one_to(random, 5), one_to(random, 40));
        let values = [
            name,
            format!("MFGR#{maker}"),
            format!("MFGR#{maker}{category}"),
            format!("MFGR#{maker}{category}{brand}"),
            pick(words.part_colors(), random).to_owned(),
            pick(words.part_types(), random).to_owned(),
        ];
        texts.iter_mut().zip(values).for_each(|(text, value)| text.append_value(value));
        sizes.push(one_to(random, 50));
        containers.append_value(pick(words.part_containers(), random));
    }
    let mut columns = vec![Arc::new(keys) as ArrayRef];
    columns.extend(texts.map(|mut text| Arc::new(text.finish()) as ArrayRef));
    columns.push(Arc::new(Int32Array::from(sizes)));
    columns.push(Arc::new(containers.finish()));
    columns
}

fn dates(_: Streams, rows: Range<u64>) -> Vec<ArrayRef> {
    let days = &CALENDAR.days[rows.start as usize..rows.end as usize];
    let ints = |value: fn(&Day) -> i32| Arc::new(Int32Array::from_iter_values(days.iter().map(value))) as ArrayRef;
    let texts = |value: fn(&Day) -> String| Arc::new(StringArray::from_iter_values(days.iter().map(value))) as ArrayRef;
    let flags =
        |value: fn(&Day) -> bool| Arc::new(Int8Array::from_iter_values(days.iter().map(|d| i8::from(value(d))))) as _;
    vec![
        ints(Day::key),
        texts(|day| format!("{} {}, {}", day.month_name(), day.day, day.year)),
        texts(|day| WEEKDAYS[day.weekday as usize].to_owned()),
        texts(|day| day.month_name().to_owned()),
        ints(|day| day.year),
        ints(|day| day.year * 100 + day.month),
        texts(|day| format!("{}{}", &day.month_name()[..3], day.year)),
        ints(|day| day.weekday + 1),
        ints(|day| day.day),
        ints(|day| day.day_of_year),
        ints(|day| day.month),
        ints(|day| (day.day_of_year - 1) / 7 + 1),
        texts(|day| day.season().to_owned()),
        flags(|day| day.weekday == 6),
        flags(|day| day.day == days_in(day.year, day.month)),
        flags(|day| HOLIDAYS.contains(&(day.month, day.day))),
        flags(|day| (1..=5).contains(&day.weekday)),
    ]
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const HOLIDAYS: [(i32, i32); 10] =
    [(1, 1), (2, 20), (4, 20), (5, 20), (7, 4), (8, 20), (9, 20), (10, 20), (11, 20), (12, 24)];

/// One day. Weekdays count from Sunday, 0.
#[derive(Clone, Copy, Debug)]
struct Day {
    year: i32,
    month: i32,
    day: i32,
    day_of_year: i32,
    weekday: i32,
}

impl Day {
    /// 1 January 1992 was a Wednesday.
    const FIRST: Day = Day { year: 1992, month: 1, day: 1, day_of_year: 1, weekday: 3 };

    fn next(self) -> Day {
        let Day { year, month, day, day_of_year, weekday } = self;
        let weekday = (weekday + 1) % 7;
        match (month, day) {
            (12, 31) => Day { year: year + 1, month: 1, day: 1, day_of_year: 1, weekday },
            _ if day == days_in(year, month) => {
                Day { year, month: month + 1, day: 1, day_of_year: day_of_year + 1, weekday }
            }
            _ => Day { year, month, day: day + 1, day_of_year: day_of_year + 1, weekday },
        }
    }

    fn key(&self) -> i32 {
        (self.year * 100 + self.month) * 100 + self.day
    }

    fn month_name(&self) -> &'static str {
        MONTHS[self.month as usize - 1]
    }

    fn season(&self) -> &'static str {
        match self.month {
            1..=3 => "Winter",
            4 => "Spring",
            5..=8 => "Summer",
            9 | 10 => "Fall",
            _ => "Christmas",
        }
    }
}

fn days_in(year: i32, month: i32) -> i32 {
    match month {
        2 if year % 4 == 0 => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

struct Calendar {
    days: Vec<Day>,
    /// The number of days, from the first, that have orders.
    order_days: u32,
}

static CALENDAR: LazyLock<Calendar> = LazyLock::new(|| {
    let days: Vec<Day> = std::iter::successors(Some(Day::FIRST), |day| Some(day.next())).take(DAYS).collect();
    let order_days = days.iter().take_while(|day| day.key() <= LAST_ORDER_DATE).count() as u32;
    Calendar { days, order_days }
});

const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];

/// TPC-H's nations in the order of their keys, each with the index of its region.
const NATIONS: [(&str, usize); 25] = [
    ("ALGERIA", 0),
    ("ARGENTINA", 1),
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("EGYPT", 4),
    ("ETHIOPIA", 0),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("INDIA", 2),
    ("INDONESIA", 2),
    ("IRAN", 4),
    ("IRAQ", 4),
    ("JAPAN", 2),
    ("JORDAN", 4),
    ("KENYA", 0),
    ("MOROCCO", 0),
    ("MOZAMBIQUE", 0),
    ("PERU", 1),
    ("CHINA", 2),
    ("ROMANIA", 3),
    ("SAUDI ARABIA", 4),
    ("VIETNAM", 2),
    ("RUSSIA", 3),
    ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
];

/// TPC-H's word lists.
fn words() -> &'static Distributions {
    Distributions::static_default()
}

fn pick(words: &'static Distribution, random: &mut Random) -> &'static str {
    let values = words.get_values();
    values[random.below(values.len() as u32) as usize]
}

fn one_to(random: &mut Random, most: u32) -> i32 {
    random.below(most) as i32 + 1
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use arrow::array::AsArray;
    use arrow::compute::concat_batches;
    use arrow::datatypes::{Int32Type, Int64Type};

    fn whole(name: &str, scale_factor: f64, parts: usize) -> RecordBatch {
        let schema = schema(name).expect("the table exists");
        let batches: Vec<RecordBatch> = (0..parts)
            .flat_map(|part| table(name, scale_factor, SEED, part, parts).expect("the table exists"))
            .inspect(|batch| assert!((1..=BATCH_ROWS).contains(&batch.num_rows())))
            .collect();
        concat_batches(&schema, &batches).expect("every part has the table's schema")
    }

    fn ints<'a>(table: &'a RecordBatch, name: &str) -> &'a [i32] {
        table.column_by_name(name).expect("the column exists").as_primitive::<Int32Type>().values()
    }

    fn texts<'a>(table: &'a RecordBatch, name: &str) -> Vec<&'a str> {
        let column = table.column_by_name(name).expect("the column exists").as_string::<i32>();
        column.iter().map(|text| text.expect("nothing is null")).collect()
    }

    fn distinct<'a>(table: &'a RecordBatch, name: &str) -> BTreeSet<&'a str> {
        texts(table, name).into_iter().collect()
    }

    #[test]
    fn the_parts_together_are_the_table() {
        for name in tables() {
            let table = whole(name, 0.01, 1);
            for parts in [2, 7] {
                assert_eq!(whole(name, 0.01, parts), table, "{name} in {parts} parts");
            }
        }
    }

    #[test]
    fn row_counts_are_those_of_the_specification() {
        let sizes =
            |scale_factor| ["date", "part", "supplier", "customer", "lineorder"].map(|name| units(name, scale_factor));
        assert_eq!(sizes(1.0), [2_556, 200_000, 2_000, 30_000, 1_500_000].map(Some));
        assert_eq!(sizes(3.0), [2_556, 400_000, 6_000, 90_000, 4_500_000].map(Some));
        assert_eq!(sizes(10.0), [2_556, 800_000, 20_000, 300_000, 15_000_000].map(Some));
        assert_eq!(sizes(0.1), [2_556, 20_000, 200, 3_000, 150_000].map(Some));
        let lines = whole("lineorder", 0.1, 1).num_rows();
        assert!((597_000..603_000).contains(&lines), "{lines} lines");
    }

    #[test]
    fn hierarchies_have_their_cardinalities() {
        let part = whole("part", 1.0, 1);
        let counts =
            ["p_mfgr", "p_category", "p_brand1", "p_color", "p_type", "p_container"].map(|c| distinct(&part, c).len());
        assert_eq!(counts, [5, 25, 1_000, 92, 150, 40]);
        for ((maker, category), brand) in
            texts(&part, "p_mfgr").iter().zip(texts(&part, "p_category")).zip(texts(&part, "p_brand1"))
        {
            assert!(category.starts_with(maker) && category.len() == 7 && brand.starts_with(category));
        }
        assert!(texts(&part, "p_name").iter().all(|name| name.len() <= 22));
        let customer = whole("customer", 1.0, 1);
        assert_eq!(
            ["c_region", "c_nation", "c_city", "c_mktsegment"].map(|c| distinct(&customer, c).len()),
            [5, 25, 250, 5]
        );
        assert!(distinct(&customer, "c_city").is_superset(&BTreeSet::from(["UNITED KI1", "PERU     0", "INDONESIA9"])));
        let supplier = whole("supplier", 1.0, 1);
        assert_eq!(["s_region", "s_nation", "s_city"].map(|c| distinct(&supplier, c).len()), [5, 25, 250]);
        assert_eq!(texts(&supplier, "s_name")[41], "Supplier#000000042");
    }

    #[test]
    fn dates_are_the_calendar() {
        let date = whole("date", 1.0, 1);
        let keys = ints(&date, "d_datekey");
        assert_eq!((keys[0], keys[DAYS - 1]), (19_920_101, 19_981_230));
        let day = keys.iter().position(|key| *key == 19_940_207).expect("1994 is a year of the benchmark");
        let row = |name: &str| texts(&date, name)[day];
        assert_eq!(row("d_date"), "February 7, 1994");
        assert_eq!((row("d_dayofweek"), row("d_month"), row("d_yearmonth")), ("Monday", "February", "Feb1994"));
        let numbers =
            ["d_year", "d_yearmonthnum", "d_daynuminweek", "d_daynuminmonth", "d_daynuminyear", "d_weeknuminyear"];
        assert_eq!(numbers.map(|name| ints(&date, name)[day]), [1994, 199_402, 2, 7, 38, 6]);
        assert_eq!(ints(&date, "d_weeknuminyear").iter().max(), Some(&53));
        assert_eq!(distinct(&date, "d_sellingseason").len(), 5);
    }

    #[test]
    fn lines_obey_their_rules() {
        let table = whole("lineorder", 0.02, 1);
        let keys = table.column(0).as_primitive::<Int64Type>().values();
        assert!(keys.is_sorted() && keys.iter().all(|key| key & 31 < 8));
        let date = whole("date", 1.0, 1);
        let dates: BTreeSet<i32> = ints(&date, "d_datekey").iter().copied().collect();
        let column = |name: &str| ints(&table, name);
        let bounds = [
            ("lo_linenumber", 1, 7),
            ("lo_custkey", 1, 600),
            ("lo_partkey", 1, 4_000),
            ("lo_suppkey", 1, 40),
            ("lo_orderdate", 19_920_101, LAST_ORDER_DATE),
            ("lo_quantity", 1, 50),
            ("lo_discount", 0, 10),
            ("lo_tax", 0, 8),
        ];
        for (name, least, most) in bounds {
            assert_eq!((column(name).iter().min(), column(name).iter().max()), (Some(&least), Some(&most)), "{name}");
        }
        let mut start = 0;
        for order in keys.chunk_by(|a, b| a == b) {
            let rows = start..start + order.len();
            start = rows.end;
            let mut total = 0;
            for (number, row) in (1..).zip(rows.clone()) {
                assert_eq!(column("lo_linenumber")[row], number);
                assert!(
                    ["lo_custkey", "lo_orderdate"].iter().all(|name| column(name)[row] == column(name)[rows.start])
                );
                let price = column("lo_quantity")[row] * retail_price(column("lo_partkey")[row]);
                let revenue = i64::from(price) * i64::from(100 - column("lo_discount")[row]) / 100;
                assert_eq!(column("lo_extendedprice")[row], price);
                assert_eq!(i64::from(column("lo_revenue")[row]), revenue);
                assert!(dates.contains(&column("lo_orderdate")[row]) && dates.contains(&column("lo_commitdate")[row]));
                assert!(column("lo_commitdate")[row] > column("lo_orderdate")[row]);
                total += revenue * i64::from(100 + column("lo_tax")[row]) / 100;
            }
            assert!(rows.clone().all(|row| i64::from(column("lo_ordtotalprice")[row]) == total));
        }
        assert_eq!(distinct(&table, "lo_orderpriority").len(), 5);
        assert_eq!(distinct(&table, "lo_shipmode").len(), 7);
    }

    #[test]
    fn another_seed_gives_other_rows() {
        for name in ["part", "supplier", "customer", "lineorder"] {
            let first = |seed| table(name, 0.01, seed, 0, 1).expect("the table exists").next();
            assert_eq!(first(1), first(1));
            assert_ne!(first(1), first(2), "{name}");
        }
    }

    #[test]
    fn files_hold_the_tables() {
        use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
        let folder = tempfile::tempdir().expect("a temporary folder");
        write_parquet(folder.path(), 0.05, SEED).expect("the folder is writable");
        for name in tables() {
            let file =
                std::fs::File::open(folder.path().join(format!("{name}.parquet"))).expect("the file was written");
            let builder = ParquetRecordBatchReaderBuilder::try_new(file).expect("the file is Parquet");
            if name == "lineorder" {
                assert_eq!(builder.metadata().num_row_groups(), 3);
            }
            let batches: Vec<RecordBatch> =
                builder.build().expect("the file has a reader").map(|batch| batch.expect("it decodes")).collect();
            let expected = whole(name, 0.05, 1);
            let found = concat_batches(&expected.schema(), &batches).expect("one schema");
            assert_eq!(found, expected, "{name}");
        }
        let files = std::fs::read_dir(folder.path()).expect("the folder exists").count();
        assert_eq!(files, tables().len());
    }
}
