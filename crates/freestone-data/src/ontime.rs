//! A table with the shape of the airlines' on-time statistics as Raasveldt and Mühleisen 2017, section 3, exported
//! them: 109 columns, 17 of them integers. Over half of the values are missing, and the others repeat.
//!
//! The names are those of the statistics; **the content is synthetic**: airports, carriers and flights are invented. A
//! flight goes on each day of a month, so the strings that describe it form runs. Values that were not reported before
//! 1995, causes of delay of flights in time, and diversions of flights that were not diverted are NULL.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, Date32Array, Decimal128Array, Int32Array, StringArray};
use arrow::datatypes::{DataType, SchemaRef};

use super::random::Random;
use super::synthetic::{self, Shaped};

/// The default seed.
pub const SEED: u64 = 109;

/// The number of columns, and of integers among them.
pub const COLUMNS: usize = 109;
/// The number of integer columns.
pub const INTEGERS: usize = 17;

const DAYS: u64 = 30;
const AIRPORTS: u32 = 320;
const CARRIERS: [&str; 14] = ["AA", "AS", "B6", "CO", "DL", "EV", "F9", "HP", "MQ", "NW", "TW", "UA", "US", "WN"];
const FIRST_YEAR: i32 = 1987;
/// Earlier years lack the values that were reported from this year on.
const REPORTED_FROM: i32 = 1995;
const STATES: [(&str, &str); 10] = [
    ("CA", "California"),
    ("TX", "Texas"),
    ("FL", "Florida"),
    ("NY", "New York"),
    ("IL", "Illinois"),
    ("GA", "Georgia"),
    ("CO", "Colorado"),
    ("WA", "Washington"),
    ("MA", "Massachusetts"),
    ("NC", "North Carolina"),
];

/// The type of a column. All times and distances are DECIMAL(8, 2), clock times are strings of four digits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Int,
    Date,
    Text,
    Number,
}

/// The columns before the diversions. A star marks nullable ones.
#[rustfmt::skip]
const FLIGHT: [(&str, Kind); 69] = [
    ("year", Kind::Int), ("quarter", Kind::Int), ("month", Kind::Int), ("dayofmonth", Kind::Int),
    ("dayofweek", Kind::Int), ("flightdate", Kind::Date), ("uniquecarrier", Kind::Text), ("airlineid", Kind::Int),
    ("carrier", Kind::Text), ("tailnum*", Kind::Text), ("flightnum", Kind::Text), ("originairportid", Kind::Int),
    ("originairportseqid", Kind::Int), ("origincitymarketid", Kind::Int), ("origin", Kind::Text),
    ("origincityname", Kind::Text), ("originstate", Kind::Text), ("originstatefips", Kind::Text),
    ("originstatename", Kind::Text), ("originwac", Kind::Int), ("destairportid", Kind::Int),
    ("destairportseqid", Kind::Int), ("destcitymarketid", Kind::Int), ("dest", Kind::Text),
    ("destcityname", Kind::Text), ("deststate", Kind::Text), ("deststatefips", Kind::Text),
    ("deststatename", Kind::Text), ("destwac", Kind::Int), ("crsdeptime", Kind::Text), ("deptime*", Kind::Text),
    ("depdelay*", Kind::Number), ("depdelayminutes*", Kind::Number), ("depdel15*", Kind::Number),
    ("departuredelaygroups*", Kind::Text), ("deptimeblk", Kind::Text), ("taxiout*", Kind::Number),
    ("wheelsoff*", Kind::Text), ("wheelson*", Kind::Text), ("taxiin*", Kind::Number), ("crsarrtime", Kind::Text),
    ("arrtime*", Kind::Text), ("arrdelay*", Kind::Number), ("arrdelayminutes*", Kind::Number),
    ("arrdel15*", Kind::Number), ("arrivaldelaygroups*", Kind::Text), ("arrtimeblk", Kind::Text),
    ("cancelled", Kind::Int), ("cancellationcode*", Kind::Text), ("diverted", Kind::Int),
    ("crselapsedtime*", Kind::Number), ("actualelapsedtime*", Kind::Number), ("airtime*", Kind::Number),
    ("flights", Kind::Number), ("distance", Kind::Number), ("distancegroup", Kind::Int),
    ("carrierdelay*", Kind::Number), ("weatherdelay*", Kind::Number), ("nasdelay*", Kind::Number),
    ("securitydelay*", Kind::Number), ("lateaircraftdelay*", Kind::Number), ("firstdeptime*", Kind::Text),
    ("totaladdgtime*", Kind::Text), ("longestaddgtime*", Kind::Text), ("divairportlandings*", Kind::Text),
    ("divreacheddest*", Kind::Text), ("divactualelapsedtime*", Kind::Text), ("divarrdelay*", Kind::Text),
    ("divdistance*", Kind::Text),
];

/// The columns of each of five airports at which a diverted flight may have landed.
const DIVERSION: [&str; 8] =
    ["airport", "airportid", "airportseqid", "wheelson", "totalgtime", "longestgtime", "wheelsoff", "tailnum"];

/// An airport, derived from its number alone.
struct Airport {
    id: i32,
    code: String,
    city: String,
    state: usize,
}

static AIRPORT_LIST: LazyLock<Vec<Airport>> = LazyLock::new(|| {
    let letter = |number: u32| (b'A' + (number % 26) as u8) as char;
    let airport = |number: u32| {
        let state = (number * 7 % STATES.len() as u32) as usize;
        let code: String = [letter(number / 13), letter(number * 5), letter(number * 11 + 3)].iter().collect();
        Airport { id: 10_135 + number as i32 * 17, city: format!("City {number}, {}", STATES[state].0), code, state }
    };
    (0..AIRPORTS).map(airport).collect()
});

/// The common properties of all days of a flight in a month.
struct Flight {
    year: i32,
    month: i32,
    carrier: usize,
    number: u32,
    tail: u32,
    from: &'static Airport,
    to: &'static Airport,
    departs: u32,
    minutes: u32,
}

impl Flight {
    /// The flight of a group of rows, wherever batches begin.
    fn of(group: u64) -> Flight {
        let mut random = Random::new(group.wrapping_mul(0x9E6C_63D0_876A_2B1F));
        let mut airport = || {
            // The minimum of two draws: some airports have most of the flights.
            let number = random.below(AIRPORTS).min(random.below(AIRPORTS));
            &AIRPORT_LIST[number as usize]
        };
        let (from, to) = (airport(), airport());
        Flight {
            year: FIRST_YEAR + random.below(16) as i32,
            month: 1 + random.below(12) as i32,
            carrier: random.below(CARRIERS.len() as u32) as usize,
            number: 1 + random.below(2_999),
            tail: random.below(900),
            from,
            to,
            departs: 300 + random.below(221) * 5,
            minutes: 45 + random.below(300),
        }
    }
}

/// One day of a flight.
struct Day {
    flight: Arc<Flight>,
    day: i32,
    is_cancelled: bool,
    is_diverted: bool,
    /// In minutes; negative if early.
    departure_delay: i32,
    arrival_delay: i32,
    taxi: (i32, i32),
}

impl Day {
    fn draw(random: &mut Random, flight: Arc<Flight>, day: i32) -> Day {
        let is_late = random.below(100) < 20;
        let delay = if is_late { random.below(90) as i32 } else { random.below(12) as i32 - 8 };
        let is_cancelled = random.below(1000) < 18;
        Day {
            flight,
            day,
            is_cancelled,
            is_diverted: !is_cancelled && random.below(1000) < 2,
            departure_delay: delay,
            arrival_delay: delay + random.below(21) as i32 - 12,
            taxi: (5 + random.below(25) as i32, 2 + random.below(10) as i32),
        }
    }

    fn arrived(&self) -> bool {
        !self.is_cancelled && !self.is_diverted
    }

    fn is_reported(&self) -> bool {
        self.flight.year >= REPORTED_FROM
    }

    /// From 2000 on, flights that are late by a quarter of an hour or more have causes.
    fn has_causes(&self) -> bool {
        self.arrived() && self.arrival_delay >= 15 && self.flight.year >= 2000
    }

    fn int(&self, name: &str) -> i32 {
        let flight = &*self.flight;
        let side = if name.starts_with("dest") { flight.to } else { flight.from };
        match name {
            "year" => flight.year,
            "quarter" => (flight.month + 2) / 3,
            "month" => flight.month,
            "dayofmonth" => self.day,
            "dayofweek" => (self.date() + 3).rem_euclid(7) + 1,
            "airlineid" => 19_386 + flight.carrier as i32 * 11,
            "originairportid" | "destairportid" => side.id,
            "originairportseqid" | "destairportseqid" => side.id * 100 + 2,
            "origincitymarketid" | "destcitymarketid" => 30_000 + side.id / 3,
            "originwac" | "destwac" => 10 + side.state as i32 * 8,
            "cancelled" => i32::from(self.is_cancelled),
            "diverted" => i32::from(self.is_diverted),
            _ => self.distance() / 250 + 1,
        }
    }

    fn distance(&self) -> i32 {
        self.flight.minutes as i32 * 7 - 150
    }

    /// Days since 1970.
    fn date(&self) -> i32 {
        // The first thirty days of every month, so that no calendar is needed: 365.25 days per year, 30.44 per month.
        let years = self.flight.year - 1970;
        years * 365 + (years + 1) / 4 + (self.flight.month - 1) * 3044 / 100 + self.day - 1
    }

    fn departure(&self) -> i32 {
        self.flight.departs as i32 + self.departure_delay
    }

    fn arrival(&self) -> i32 {
        self.flight.departs as i32 + self.flight.minutes as i32 + self.arrival_delay
    }

    /// In hundredths.
    fn number(&self, name: &str) -> Option<i128> {
        let airborne = self.flight.minutes as i32 + self.arrival_delay - self.departure_delay;
        let (departed, arrived, reported) = (!self.is_cancelled, self.arrived(), self.is_reported());
        let cause = |share: i32| self.has_causes().then_some(self.arrival_delay * share / 4);
        let value = match name {
            "depdelay" => departed.then_some(self.departure_delay),
            "depdelayminutes" => departed.then_some(self.departure_delay.max(0)),
            "depdel15" => departed.then_some(i32::from(self.departure_delay >= 15)),
            "arrdelay" => arrived.then_some(self.arrival_delay),
            "arrdelayminutes" => arrived.then_some(self.arrival_delay.max(0)),
            "arrdel15" => arrived.then_some(i32::from(self.arrival_delay >= 15)),
            "taxiout" => (reported && departed).then_some(self.taxi.0),
            "taxiin" => (reported && arrived).then_some(self.taxi.1),
            "airtime" => (reported && arrived).then_some(airborne - self.taxi.0 - self.taxi.1),
            "crselapsedtime" => Some(self.flight.minutes as i32),
            "actualelapsedtime" => arrived.then_some(airborne),
            "flights" => Some(1),
            "distance" => Some(self.distance()),
            "nasdelay" => cause(self.day % 3),
            "lateaircraftdelay" => cause(4 - self.day % 3),
            _ => cause(0),
        };
        value.map(|value| i128::from(value) * 100)
    }

    fn text(&self, name: &str) -> Option<String> {
        let flight = &*self.flight;
        let side = if name.starts_with("dest") { flight.to } else { flight.from };
        let (departed, arrived, reported) = (!self.is_cancelled, self.arrived(), self.is_reported());
        let carrier = || CARRIERS[flight.carrier].to_owned();
        match name {
            "uniquecarrier" | "carrier" => Some(carrier()),
            "tailnum" => reported.then(|| format!("N{:03}{}", flight.tail, carrier())),
            "flightnum" => Some(flight.number.to_string()),
            "origin" | "dest" => Some(side.code.clone()),
            "origincityname" | "destcityname" => Some(side.city.clone()),
            "originstate" | "deststate" => Some(STATES[side.state].0.into()),
            "originstatefips" | "deststatefips" => Some(format!("{:02}", side.state * 5 + 1)),
            "originstatename" | "deststatename" => Some(STATES[side.state].1.into()),
            "crsdeptime" => Some(clock(flight.departs as i32)),
            "deptime" => departed.then(|| clock(self.departure())),
            "deptimeblk" => Some(block(flight.departs as i32)),
            "wheelsoff" => (reported && departed).then(|| clock(self.departure() + self.taxi.0)),
            "wheelson" => (reported && arrived).then(|| clock(self.arrival() - self.taxi.1)),
            "crsarrtime" => Some(clock((flight.departs + flight.minutes) as i32)),
            "arrtime" => arrived.then(|| clock(self.arrival())),
            "arrtimeblk" => Some(block((flight.departs + flight.minutes) as i32)),
            "departuredelaygroups" => departed.then(|| (self.departure_delay.div_euclid(15)).to_string()),
            "arrivaldelaygroups" => arrived.then(|| (self.arrival_delay.div_euclid(15)).to_string()),
            "cancellationcode" => self.is_cancelled.then(|| "ABC"[flight.number as usize % 3..][..1].into()),
            "divairportlandings" => self.is_diverted.then(|| "1".into()),
            "divreacheddest" => self.is_diverted.then(|| "1.00".into()),
            _ => None,
        }
    }

    /// The first airport at which a diverted flight landed. None landed at a second one.
    fn diversion(&self, name: &str) -> Option<String> {
        let at = &AIRPORT_LIST[self.flight.number as usize % AIRPORT_LIST.len()];
        self.is_diverted.then(|| match name {
            "airport" => at.code.clone(),
            "airportid" => at.id.to_string(),
            "airportseqid" => (at.id * 100 + 2).to_string(),
            "wheelson" => clock(self.arrival()),
            "wheelsoff" => clock(self.arrival() + 40),
            "tailnum" => format!("N{:03}{}", self.flight.tail, CARRIERS[self.flight.carrier]),
            _ => "40.00".into(),
        })
    }
}

/// Minutes of the day as `hhmm`.
fn clock(minutes: i32) -> String {
    let minutes = minutes.rem_euclid(24 * 60);
    format!("{:02}{:02}", minutes / 60, minutes % 60)
}

/// The hour of a time, as `0900-0959`.
fn block(minutes: i32) -> String {
    let hour = minutes.rem_euclid(24 * 60) / 60;
    format!("{hour:02}00-{hour:02}59")
}

/// The table.
pub static TABLE: LazyLock<Shaped> = LazyLock::new(|| {
    let content = "synthetic data with the published shape of the airlines' on-time statistics";
    Shaped { name: "ontime", content, schema: make_schema(), columns }
});

fn make_schema() -> SchemaRef {
    let kind = |kind| match kind {
        Kind::Int => DataType::Int32,
        Kind::Date => DataType::Date32,
        Kind::Text => DataType::Utf8,
        Kind::Number => DataType::Decimal128(8, 2),
    };
    let flight =
        FLIGHT.iter().map(|(name, of)| (name.trim_end_matches('*').to_owned(), kind(*of), name.ends_with('*')));
    let diversions = (1..=5).flat_map(|at| DIVERSION.map(|name| (format!("div{at}{name}"), DataType::Utf8, true)));
    let all: Vec<_> = flight.chain(diversions).collect();
    synthetic::schema(all.iter().map(|(name, kind, nullable)| (name.as_str(), kind.clone(), *nullable)))
}

fn columns(mut random: Random, start: u64, count: usize) -> Vec<ArrayRef> {
    let mut flight = Arc::new(Flight::of(start / DAYS));
    let days = (start..start + count as u64).map(|row| {
        if row % DAYS == 0 {
            flight = Arc::new(Flight::of(row / DAYS));
        }
        Day::draw(&mut random, flight.clone(), 1 + (row % DAYS) as i32)
    });
    let days: Vec<Day> = days.collect();
    let mut columns: Vec<ArrayRef> = vec![];
    for (name, kind) in FLIGHT {
        let name = name.trim_end_matches('*');
        columns.push(match kind {
            Kind::Int => Arc::new(Int32Array::from_iter_values(days.iter().map(|day| day.int(name)))),
            Kind::Date => Arc::new(Date32Array::from_iter_values(days.iter().map(Day::date))),
            Kind::Text => Arc::new(StringArray::from_iter(days.iter().map(|day| day.text(name)))),
            Kind::Number => {
                let numbers = Decimal128Array::from_iter(days.iter().map(|day| day.number(name)));
                Arc::new(numbers.with_precision_and_scale(8, 2).expect("8 digits with 2 places are a decimal"))
            }
        });
    }
    for at in 1..=5 {
        for name in DIVERSION {
            let values = days.iter().map(|day| if at == 1 { day.diversion(name) } else { None });
            columns.push(Arc::new(StringArray::from_iter(values)));
        }
    }
    columns
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
        let batches: Vec<RecordBatch> = TABLE.batches(50_000, SEED).collect();
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let nulls: usize = batches.iter().flat_map(RecordBatch::columns).map(|column| column.null_count()).sum();
        let share = nulls as f64 / (rows * COLUMNS) as f64;
        assert!((0.505..0.56).contains(&share), "{share} of the values are missing");
        // Adjacent rows mostly describe the same flight.
        let origin = batches[0].column_by_name("origin").expect("the column is there").clone();
        let origin = origin.as_any().downcast_ref::<StringArray>().expect("texts").clone();
        let changes = (1..origin.len()).filter(|at| origin.value(*at) != origin.value(at - 1)).count();
        assert!(changes * 25 < origin.len(), "{changes} changes in {} rows", origin.len());
    }

    #[test]
    fn the_seed_decides_alone_and_batches_meet_within_a_flight() {
        let all = |seed: u64| TABLE.batches(20_000, seed).collect::<Vec<_>>();
        assert!(all(1) == all(1) && all(1) != all(2));
        let batches = all(1);
        let number = |batch: &RecordBatch, row: usize| {
            let column = batch.column_by_name("flightnum").expect("the column is there").clone();
            column.as_any().downcast_ref::<StringArray>().expect("texts").value(row).to_owned()
        };
        // 8192 is no multiple of 30, so a flight continues in the next batch.
        assert_eq!(number(&batches[0], batches[0].num_rows() - 1), number(&batches[1], 0));
    }
}
