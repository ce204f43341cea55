//! A table with the shape of the American Community Survey's person records as Raasveldt and Mühleisen 2017, section 3,
//! exported them: 274 columns, 265 of them integers and mostly small, with many NULLs.
//!
//! The names are the survey's; **the content is synthetic**: people with an age, and with the properties that they
//! work, have moved, have served or speak other languages. Only the people to whom a question applies have an answer.
//! An answer has a flag that says whether the survey invented it (nearly always 0). A person has 81 weights, small
//! numbers near one of their own.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, Int32Array, StringArray};
use arrow::datatypes::{DataType, SchemaRef};

use super::random::Random;
use super::synthetic::{self, Shaped};

/// The default seed.
pub const SEED: u64 = 274;

/// The number of columns, and of integers among them.
pub const COLUMNS: usize = 274;
/// The number of integer columns.
pub const INTEGERS: usize = 265;

const WEIGHTS: usize = 81;

/// The people to whom a question applies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    All,
    /// People of 15 years or more.
    Adult,
    Worker,
    /// People who moved in the last year.
    Mover,
    Veteran,
    /// People who speak another language at home.
    Speaker,
    Woman,
    /// One person in eight.
    Few,
}

/// Answers by the people to whom they apply, with the largest value. The smallest is 1, or 0 if the largest is marked
/// by a minus.
#[rustfmt::skip]
const ANSWERS: [(&str, Who, i32); 92] = [
    ("sporder", Who::All, 6), ("division", Who::All, 9), ("region", Who::All, 4), ("st", Who::All, 56),
    ("adjinc", Who::All, 1), ("agep", Who::All, -94), ("cit", Who::All, 5), ("citwp", Who::Speaker, 90),
    ("cow", Who::Adult, 9), ("ddrs", Who::All, 2), ("dear", Who::All, 2), ("deye", Who::All, 2),
    ("dout", Who::Adult, 2), ("dphy", Who::All, 2), ("drat", Who::Veteran, 6), ("dratx", Who::Veteran, 2),
    ("drem", Who::All, 2), ("eng", Who::Speaker, 4), ("fer", Who::Woman, 2), ("gcl", Who::Few, 2),
    ("gcm", Who::Veteran, 5), ("gcr", Who::Veteran, 2), ("hins1", Who::All, 2), ("hins2", Who::All, 2),
    ("hins3", Who::All, 2), ("hins4", Who::All, 2), ("hins5", Who::Few, 2), ("hins6", Who::Few, 2),
    ("hins7", Who::Few, 2), ("intp", Who::Adult, -20_000), ("jwmnp", Who::Worker, 120), ("jwrip", Who::Worker, 4),
    ("jwtr", Who::Worker, 12), ("lanx", Who::All, 2), ("mar", Who::All, 5), ("marhd", Who::Few, 2),
    ("marhm", Who::Few, 2), ("marht", Who::Few, 3), ("marhw", Who::Few, 2), ("marhyp", Who::Adult, 70),
    ("mig", Who::All, 3), ("mil", Who::Adult, 4), ("mlpa", Who::Veteran, -1), ("mlpb", Who::Veteran, -1),
    ("mlpcd", Who::Veteran, -1), ("mlpe", Who::Veteran, -1), ("mlpfg", Who::Veteran, -1), ("mlph", Who::Veteran, -1),
    ("nwab", Who::Adult, 3), ("nwav", Who::Adult, 5), ("nwla", Who::Adult, 3), ("nwlk", Who::Adult, 3),
    ("nwre", Who::Few, 3), ("oip", Who::Few, -9_000), ("pap", Who::Few, -5_000), ("relp", Who::All, -17),
    ("retp", Who::Few, -40_000), ("sch", Who::All, 3), ("schg", Who::Mover, 16), ("schl", Who::All, 24),
    ("semp", Who::Few, -30_000), ("sex", Who::All, 2), ("ssip", Who::Few, -9_000), ("ssp", Who::Adult, -20_000),
    ("wagp", Who::Adult, -120_000), ("wkhp", Who::Worker, 60), ("wkl", Who::Adult, 3), ("wkw", Who::Worker, 6),
    ("wrk", Who::Adult, 2), ("yoep", Who::Speaker, 90), ("anc", Who::All, 4), ("anc1p", Who::All, 999),
    ("anc2p", Who::Few, 999), ("decade", Who::Speaker, 7), ("dis", Who::All, 2), ("drivesp", Who::Worker, 6),
    ("esp", Who::Mover, 8), ("esr", Who::Adult, 6), ("hicov", Who::All, 2), ("hisp", Who::All, 24),
    ("indp", Who::Adult, 9_920), ("jwap", Who::Worker, 285), ("jwdp", Who::Worker, 150), ("lanp", Who::Speaker, 999),
    ("msp", Who::Adult, 6), ("nativity", Who::All, 2), ("oc", Who::Few, -1), ("occp", Who::Adult, 9_920),
    ("pincp", Who::Adult, -150_000), ("pobp", Who::All, 554), ("povpip", Who::All, -501), ("rac1p", Who::All, 9),
];

/// Codes with leading zeros, therefore strings: their number of digits, the number of codes, and the people to whom
/// they apply.
const CODES: [(&str, usize, u32, Who); 9] = [
    ("rt", 1, 1, Who::All),
    ("serialno", 13, 0, Who::All),
    ("puma", 5, 2_378, Who::All),
    ("naicsp", 6, 270, Who::Adult),
    ("socp", 6, 480, Who::Adult),
    ("migpuma", 5, 1_000, Who::Mover),
    ("migsp", 3, 200, Who::Mover),
    ("powpuma", 5, 1_000, Who::Worker),
    ("powsp", 3, 52, Who::Worker),
];

/// One person, from whom all columns are derived.
struct Person {
    age: i32,
    is_worker: bool,
    is_mover: bool,
    is_veteran: bool,
    is_speaker: bool,
    is_woman: bool,
    is_concerned: bool,
    weight: u32,
}

impl Person {
    fn draw(random: &mut Random) -> Person {
        let mut chance = |percent: u32| random.below(100) < percent;
        let (is_worker, is_mover, is_veteran) = (chance(60), chance(15), chance(9));
        let (is_speaker, is_woman, is_concerned) = (chance(20), chance(51), chance(12));
        // The minimum of two draws makes old age rarer than youth.
        let age = random.below(95).min(random.below(120)) as i32;
        Person {
            age,
            is_worker: is_worker && (16..75).contains(&age),
            is_mover,
            is_veteran: is_veteran && age >= 17,
            is_speaker,
            is_woman,
            is_concerned,
            weight: 20 + random.below(100),
        }
    }

    fn is(&self, who: Who) -> bool {
        match who {
            Who::All => true,
            Who::Adult => self.age >= 15,
            Who::Worker => self.is_worker,
            Who::Mover => self.is_mover,
            Who::Veteran => self.is_veteran,
            Who::Speaker => self.is_speaker,
            Who::Woman => self.is_woman && (15..50).contains(&self.age),
            Who::Few => self.is_concerned,
        }
    }
}

/// The table: nine string columns, the answers with their flags, the weights.
pub static TABLE: LazyLock<Shaped> = LazyLock::new(|| {
    let content = "synthetic data with the published shape of the American Community Survey";
    Shaped { name: "acs", content, schema: make_schema(), columns }
});

fn make_schema() -> SchemaRef {
    let codes = CODES.map(|(name, _, _, who)| (name.to_owned(), DataType::Utf8, who != Who::All));
    let answers = ANSWERS.map(|(name, who, _)| (name.to_owned(), DataType::Int32, who != Who::All));
    let flags = ANSWERS.map(|(name, _, _)| (format!("f{name}"), DataType::Int32, false));
    let weights =
        (0..WEIGHTS).map(|at| (if at == 0 { "pwgtp".into() } else { format!("pwgtp{at}") }, DataType::Int32, false));
    let all: Vec<_> = codes.into_iter().chain(answers).chain(flags).chain(weights).collect();
    synthetic::schema(all.iter().map(|(name, kind, nullable)| (name.as_str(), kind.clone(), *nullable)))
}

fn columns(mut random: Random, start: u64, count: usize) -> Vec<ArrayRef> {
    let people: Vec<Person> = (0..count).map(|_| Person::draw(&mut random)).collect();
    let mut columns: Vec<ArrayRef> = vec![];
    for (name, digits, values, who) in CODES {
        let values = people.iter().enumerate().map(|(row, person)| {
            let code = random.below(values.max(1));
            person.is(who).then(|| match name {
                "rt" => "P".to_owned(),
                "serialno" => format!("{:0digits$}", 2_014_000_000_000 + (start + row as u64) / 2),
                _ => format!("{:0digits$}", 100 + code * 3),
            })
        });
        columns.push(Arc::new(StringArray::from_iter(values)));
    }
    for (name, who, last) in ANSWERS {
        let values = people.iter().map(|person| {
            let value = answer(&mut random, person, name, last);
            person.is(who).then_some(value)
        });
        columns.push(Arc::new(Int32Array::from_iter(values)));
    }
    for _ in ANSWERS {
        columns.push(Arc::new(Int32Array::from_iter_values(people.iter().map(|_| i32::from(random.below(100) < 4)))));
    }
    for _ in 0..WEIGHTS {
        // A replicate weight is about a third or five thirds of the person's own, or near it.
        let weights = people.iter().map(|person| {
            let third = [1, 3, 3, 5][random.below(4) as usize];
            (person.weight * third / 3 + random.below(9)) as i32
        });
        columns.push(Arc::new(Int32Array::from_iter_values(weights)));
    }
    columns
}

/// A value up to `last`: mostly one of the smallest, and for money mostly 0.
fn answer(random: &mut Random, person: &Person, name: &str, last: i32) -> i32 {
    let (first, most) = if last < 0 { (0, -last) } else { (1, last) };
    let draw = |random: &mut Random| first + random.below((most - first + 1) as u32) as i32;
    match most {
        _ if name == "agep" => person.age.min(most),
        1_000.. if first == 0 => {
            let rounded = draw(random).min(draw(random)) / 10 * 10;
            if random.below(100) < 70 && name != "wagp" && name != "pincp" { 0 } else { rounded }
        }
        10.. => draw(random).min(draw(random)),
        _ => draw(random),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, RecordBatch};

    #[test]
    fn the_shape_is_the_published_one() {
        let schema = TABLE.schema();
        assert_eq!(schema.fields().len(), COLUMNS);
        assert_eq!(schema.fields().iter().filter(|field| field.data_type() == &DataType::Int32).count(), INTEGERS);
        let mut names: Vec<_> = schema.fields().iter().map(|field| field.name().clone()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), COLUMNS, "every column has a name of its own");
        let batches: Vec<RecordBatch> = TABLE.batches(20_000, SEED).collect();
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let columns = || batches.iter().flat_map(RecordBatch::columns);
        let nulls: usize = columns().map(|column| column.null_count()).sum();
        let share = nulls as f64 / (rows * COLUMNS) as f64;
        assert!((0.12..0.22).contains(&share), "{share} of the values are NULL");
        let integers = columns().filter_map(|column| column.as_any().downcast_ref::<Int32Array>());
        let (small, all) =
            integers.flat_map(|column| column.iter().flatten()).fold((0_u64, 0_u64), |(small, all), value| {
                assert!(value >= 0);
                (small + u64::from(value < 100), all + 1)
            });
        assert!(small * 10 > all * 7, "{small} of {all} integers are below 100");
    }

    #[test]
    fn the_seed_decides_alone() {
        let all = |seed: u64| TABLE.batches(10_000, seed).collect::<Vec<_>>();
        assert!(all(1) == all(1) && all(1) != all(2));
        let folder = tempfile::tempdir().expect("a temporary folder");
        TABLE.write_parquet(folder.path(), 0.01, 1).expect("the folder is writable");
        assert!(folder.path().join("acs.parquet").exists());
    }
}
