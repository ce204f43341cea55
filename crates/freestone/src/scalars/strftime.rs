//! `strftime` and `strptime`: formatting and parsing of times, with DuckDB's specifiers.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringViewBuilder};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;

use super::function::Scalar;
use super::kinds::Kind::{Date, List, Text};
use super::kinds::TEXT;
use super::rows::{lists, texts, too_large};
use crate::error::Error;
use crate::times::{
    Call, LocalTime, Parsed, SECOND_NS, TIMESTAMP, TimeFormat, exact_cast, finished, integers, is_text,
    keeping_infinite, local_ticks, timestamptz, to_instant,
};

const DAY_SECONDS: i64 = 86_400;

pub(super) fn all() -> Vec<Scalar> {
    vec![
        Scalar::new(&["strftime"], &[&[Date, Text], &[Text, Date]], TEXT, |call| keeping_infinite(call, strftime)),
        Scalar::typed(&["strptime"], &[&[Text, Text], &[Text, List]], type_of_formats, |call| strptime(call, true)),
        Scalar::typed(&["try_strptime"], &[&[Text, Text], &[Text, List]], type_of_formats, |call| {
            strptime(call, false)
        }),
    ]
}

/// The last format, because formats are mostly the same in all rows.
#[derive(Default)]
struct LastFormat(Option<TimeFormat>);

impl LastFormat {
    fn of(&mut self, text: &str) -> Result<&TimeFormat> {
        match self.0.take() {
            Some(known) if known.text() == text => Ok(self.0.insert(known)),
            _ => Ok(self.0.insert(TimeFormat::new(text)?)),
        }
    }
}

/// The texts of dates that came last, by their days.
struct KnownTexts(Vec<Option<(i64, String)>>);

impl Default for KnownTexts {
    fn default() -> Self {
        KnownTexts(vec![None; KnownTexts::PLACES])
    }
}

impl KnownTexts {
    const PLACES: usize = 1 << 12;

    fn get(&self, days: i64) -> Option<&str> {
        self.0[days as usize % KnownTexts::PLACES]
            .as_ref()
            .filter(|known| known.0 == days)
            .map(|known| known.1.as_str())
    }

    fn add(&mut self, days: i64, text: &str) {
        self.0[days as usize % KnownTexts::PLACES] = Some((days, text.to_owned()));
    }
}

fn strftime(call: &Call) -> Result<ArrayRef> {
    let (a, b) = (call.array(0)?, call.array(1)?);
    let is_constant = call.constant(usize::from(!is_text(a.data_type()))).is_some();
    let (times, formats) = if is_text(a.data_type()) { (b, a) } else { (a, b) };
    let formats = exact_cast(&formats, &TEXT)?;
    let formats = formats.as_string_view();
    let is_zoned = matches!(times.data_type(), DataType::Timestamp(_, Some(_)));
    let (instants, local, per_second) = match times.data_type() {
        DataType::Date32 => {
            let seconds = integers(&times)?.unary::<_, Int64Type>(|days| days * DAY_SECONDS);
            (seconds.clone(), seconds, 1)
        }
        _ => {
            let (local, per_second) = local_ticks(&times, &call.zone)?;
            (integers(&times)?, local, per_second)
        }
    };
    let mut last = LastFormat::default();
    // The same dates come again and again.
    let mut known = (is_constant && *times.data_type() == DataType::Date32).then(KnownTexts::default);
    let (mut written, mut text) = (StringViewBuilder::with_capacity(local.len()), String::new());
    for row in 0..local.len() {
        if local.is_null(row) || formats.is_null(row) {
            written.append_null();
            continue;
        }
        let (instant, value, day) = (instants.value(row), local.value(row), DAY_SECONDS * per_second);
        if let Some(text) = known.as_ref().and_then(|known| known.get(instant / DAY_SECONDS)) {
            written.append_value(text);
            continue;
        }
        let time = LocalTime {
            days: value.div_euclid(day),
            ns: value.rem_euclid(day) * (SECOND_NS / per_second),
            offset: (value - instant) / per_second,
            zone: is_zoned.then_some(&call.zone),
        };
        text.clear();
        last.of(formats.value(row))?.write(&time, &mut text);
        written.append_value(&text);
        if let Some(known) = &mut known {
            known.add(instant / DAY_SECONDS, &text);
        }
    }
    Ok(Arc::new(written.finish()))
}

/// TIMESTAMP, or TIMESTAMP WITH TIME ZONE if the format has an offset.
fn type_of_formats(_: &[DataType], constants: &[Option<&ScalarValue>]) -> Result<DataType> {
    let format = constants.get(1).copied().flatten();
    let is_zoned = format.is_some_and(|format| {
        let text = format.to_string();
        text.contains("%z") || text.contains("%Z")
    });
    Ok(if is_zoned { timestamptz() } else { TIMESTAMP })
}

fn strptime(call: &Call, strict: bool) -> Result<ArrayRef> {
    let values = texts(call, 0)?;
    let formats = call.array(1)?;
    let is_list = matches!(formats.data_type(), DataType::List(_));
    let (single, several) = match is_list {
        true => (None, Some(lists(call, 1)?)),
        false => (Some(texts(call, 1)?), None),
    };
    let mut known: Vec<TimeFormat> = vec![];
    let mut row = |row: usize| -> Result<Option<i64>> {
        let tried: Vec<String> = match (&single, &several) {
            (Some(formats), _) if formats.is_valid(row) => vec![formats.value(row).to_owned()],
            (_, Some(formats)) if formats.is_valid(row) => {
                let formats = exact_cast(&formats.value(row), &TEXT)?;
                formats.as_string_view().iter().flatten().map(str::to_owned).collect()
            }
            _ => return Ok(None),
        };
        if values.is_null(row) {
            return Ok(None);
        }
        for format in &tried {
            if known.iter().all(|known| known.text() != format) {
                known.push(TimeFormat::new(format)?);
            }
            let format = known.iter().find(|known| known.text() == format);
            if let Some(parsed) = format.and_then(|format| format.read(values.value(row))) {
                return Ok(Some(micros(&parsed, call)?));
            }
        }
        if strict {
            let formats = tried.join("', '");
            let error = Error::invalid(format!("'{}' is not a time in the format '{formats}'", values.value(row)));
            return Err(error.with_hint("try_strptime gives NULL for such texts").into());
        }
        Ok(None)
    };
    finished((0..values.len()).map(&mut row).collect::<Result<Int64Array>>()?, &call.to)
}

/// The microseconds of a parsed text: in UTC if it has an offset, otherwise in local time or in the session's time
/// zone.
fn micros(parsed: &Parsed, call: &Call) -> Result<i64> {
    let local = parsed.days.checked_mul(DAY_SECONDS * 1_000_000).and_then(|day| day.checked_add(parsed.ns / 1_000));
    let Some(local) = local else { return too_large("timestamp") };
    match &parsed.zone {
        Some(zone) => to_instant(local, 1_000_000, zone),
        None if matches!(call.to, DataType::Timestamp(_, Some(_))) => to_instant(local, 1_000_000, &call.zone),
        None => Ok(local),
    }
}
