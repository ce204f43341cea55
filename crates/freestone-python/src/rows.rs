//! Rows as tuples of Python values.

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::*;
use freestone::display::ValueTexts;
use freestone::{Error, ErrorKind};
use parking_lot::Mutex;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDelta, PyDict, PyList, PyString, PyTime, PyTuple};

use crate::closed::Closed;
use crate::error::{OrRaise, interface};
use crate::frames::HUGEINT;
use crate::results::Source;

const MICROSECONDS_A_SECOND: i64 = 1_000_000;
const MICROSECONDS_A_DAY: i64 = 86_400 * MICROSECONDS_A_SECOND;

type Objects<'py> = Vec<Bound<'py, PyAny>>;

/// A query's rows from the first to the last.
#[pyclass(frozen, module = "freestone._freestone")]
pub struct Rows {
    reading: Mutex<Reading>,
    closed: Closed,
}

struct Reading {
    /// `None` after the last batch was read.
    source: Option<Source>,
    batch: Option<RecordBatch>,
    /// The number of rows of the batch that were fetched.
    fetched: usize,
}

impl Rows {
    pub fn new(source: Source, closed: Closed) -> Self {
        Rows { reading: Mutex::new(Reading { source: Some(source), batch: None, fetched: 0 }), closed }
    }
}

#[pymethods]
impl Rows {
    /// The next `count` rows, or all remaining ones. Fewer only at the end.
    #[pyo3(signature = (count = None))]
    fn fetch<'py>(&self, py: Python<'py>, count: Option<usize>) -> PyResult<Bound<'py, PyList>> {
        self.closed.check(py)?;
        let Some(mut reading) = self.reading.try_lock() else {
            return Err(interface(py, "another thread reads this result", "give each thread a cursor of its own"));
        };
        let rows = PyList::empty(py);
        let wanted = count.unwrap_or(usize::MAX);
        while rows.len() < wanted && reading.advance(py)? {
            reading.take(py, wanted - rows.len(), &rows)?;
        }
        Ok(rows)
    }
}

impl Reading {
    /// Whether there is a batch with rows to fetch.
    fn advance(&mut self, py: Python<'_>) -> PyResult<bool> {
        if self.batch.as_ref().is_some_and(|batch| self.fetched < batch.num_rows()) {
            return Ok(true);
        }
        (self.batch, self.fetched) = (None, 0);
        let Some(source) = &mut self.source else { return Ok(false) };
        match source.next(py) {
            Ok(Some(batch)) => self.batch = Some(batch),
            Ok(None) => self.source = None,
            Err(error) => {
                self.source = None;
                return Err(error);
            }
        }
        Ok(self.batch.is_some())
    }

    fn take(&mut self, py: Python<'_>, wanted: usize, rows: &Bound<'_, PyList>) -> PyResult<()> {
        let Some(batch) = &self.batch else { return Ok(()) };
        let taken = batch.slice(self.fetched, wanted.min(batch.num_rows() - self.fetched));
        let schema = taken.schema();
        let columns = taken.columns().iter().zip(schema.fields());
        let columns = columns.map(|(column, _)| objects(py, column));
        let mut columns = columns.map(|column| column.map(Vec::into_iter)).collect::<PyResult<Vec<_>>>()?;
        for _ in 0..taken.num_rows() {
            rows.append(PyTuple::new(py, columns.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>())?)?;
        }
        self.fetched += taken.num_rows();
        Ok(())
    }
}

/// The time at each row, or its text if it lies outside of what Python's datetime holds, the years 1 to 9999.
fn each_time<'py>(
    py: Python<'py>,
    array: &ArrayRef,
    value: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Objects<'py>> {
    let texts = ValueTexts::new(array.as_ref()).map_err(Error::from).or_raise(py)?;
    each(py, array, |at| match value(at) {
        Err(error) if error.is_instance_of::<PyOverflowError>(py) => {
            let mut text = String::new();
            texts.append(at, &mut text);
            // As SQL writes it, and not ISO 8601.
            let text = text.trim_start_matches('+').replace('T', " ").replace('Z', "+00");
            Ok(PyString::new(py, &text).into_any())
        }
        done => done,
    })
}

/// The values of a column.
pub fn objects<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>> {
    use DataType::*;
    match array.data_type() {
        Null => Ok(vec![py.None().into_bound(py); array.len()]),
        Boolean => {
            let values = array.as_boolean();
            each(py, array, |at| values.value(at).into_bound_py_any(py))
        }
        Int8 => plain::<Int8Type>(py, array),
        Int16 => plain::<Int16Type>(py, array),
        Int32 => plain::<Int32Type>(py, array),
        Int64 => plain::<Int64Type>(py, array),
        UInt8 => plain::<UInt8Type>(py, array),
        UInt16 => plain::<UInt16Type>(py, array),
        UInt32 => plain::<UInt32Type>(py, array),
        UInt64 => plain::<UInt64Type>(py, array),
        Float32 => plain::<Float32Type>(py, array),
        Float64 => plain::<Float64Type>(py, array),
        Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => decimals(py, array),
        Utf8 | LargeUtf8 | Utf8View => texts(py, array),
        FixedSizeBinary(16) => uuids(py, array),
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => binaries(py, array),
        Date32 | Date64 => dates(py, array),
        Time32(_) | Time64(_) => times(py, array),
        Timestamp(_, zone) => timestamps(py, array, zone.as_deref()),
        Duration(_) => durations(py, array),
        Interval(_) => intervals(py, array),
        List(_) => lists::<i32>(py, array),
        LargeList(_) => lists::<i64>(py, array),
        FixedSizeList(_, length) => fixed_lists(py, array, *length as usize),
        Struct(_) => structs(py, array),
        Map(_, _) => maps(py, array),
        Dictionary(_, value) => objects(py, &converted(py, array, value)?),
        Float16 => objects(py, &converted(py, array, &Float32)?),
        other => {
            let error = Error::new(ErrorKind::Unsupported, format!("values of type {other} have no form in Python"));
            Err(error.with_hint("read them with .arrow()")).or_raise(py)
        }
    }
}

/// The value at each row that is not NULL, None for the others.
fn each<'py>(
    py: Python<'py>,
    array: &ArrayRef,
    value: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Objects<'py>> {
    let none = || Ok(py.None().into_bound(py));
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => (0..array.len()).map(value).collect(),
        Some(nulls) => (0..array.len()).map(|at| if nulls.is_null(at) { none() } else { value(at) }).collect(),
    }
}

fn plain<'py, T: ArrowPrimitiveType>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>>
where
    T::Native: IntoPyObject<'py>,
{
    let values = array.as_primitive::<T>();
    each(py, array, |at| values.value(at).into_bound_py_any(py))
}

/// Decimals; integers of more than 64 bits, such as sums of integers, as `int`.
fn decimals<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>> {
    if *array.data_type() == HUGEINT {
        return plain::<Decimal128Type>(py, array);
    }
    let decimal = py.import("decimal")?.getattr("Decimal")?;
    each(py, array, |at| {
        let text = match array.data_type() {
            DataType::Decimal32(..) => array.as_primitive::<Decimal32Type>().value_as_string(at),
            DataType::Decimal64(..) => array.as_primitive::<Decimal64Type>().value_as_string(at),
            DataType::Decimal128(..) => array.as_primitive::<Decimal128Type>().value_as_string(at),
            _ => array.as_primitive::<Decimal256Type>().value_as_string(at),
        };
        decimal.call1((text,))
    })
}

fn texts<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>> {
    each(py, array, |at| {
        let text = match array.data_type() {
            DataType::Utf8 => array.as_string::<i32>().value(at),
            DataType::LargeUtf8 => array.as_string::<i64>().value(at),
            _ => array.as_string_view().value(at),
        };
        Ok(PyString::new(py, text).into_any())
    })
}

fn binaries<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>> {
    each(py, array, |at| {
        let bytes = match array.data_type() {
            DataType::Binary => array.as_binary::<i32>().value(at),
            DataType::LargeBinary => array.as_binary::<i64>().value(at),
            DataType::BinaryView => array.as_binary_view().value(at),
            _ => array.as_fixed_size_binary().value(at),
        };
        Ok(PyBytes::new(py, bytes).into_any())
    })
}

fn uuids<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>> {
    let uuid = py.import("uuid")?.getattr("UUID")?;
    let values = array.as_fixed_size_binary();
    each(py, array, |at| uuid.call1((py.None(), PyBytes::new(py, values.value(at)))))
}

fn dates<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>> {
    let days = converted(py, array, &DataType::Date32)?;
    let days = days.as_primitive::<Date32Type>();
    let epoch = py.import("datetime")?.getattr("date")?.call1((1970, 1, 1))?;
    each_time(py, array, |at| epoch.add(PyDelta::new(py, days.value(at), 0, 0, true)?))
}

/// Values of a time type as microseconds. Smaller parts are truncated.
fn microseconds(array: &ArrayRef) -> Vec<Option<i64>> {
    use DataType::*;
    let scaled = |count: i64, unit: &TimeUnit| match unit {
        TimeUnit::Second => count.checked_mul(MICROSECONDS_A_SECOND),
        TimeUnit::Millisecond => count.checked_mul(1000),
        TimeUnit::Microsecond => Some(count),
        TimeUnit::Nanosecond => Some(count.div_euclid(1000)),
    };
    let (Time32(unit) | Time64(unit) | Timestamp(unit, _) | Duration(unit)) = array.data_type() else { return vec![] };
    let data = array.to_data();
    let count = |at: usize| match array.data_type() {
        Time32(_) => i64::from(data.buffer::<i32>(0)[at]),
        _ => data.buffer::<i64>(0)[at],
    };
    (0..array.len()).map(|at| scaled(count(at), unit)).collect()
}

fn delta(py: Python<'_>, microseconds: Option<i64>) -> PyResult<Bound<'_, PyDelta>> {
    let microseconds = microseconds.ok_or_else(|| PyOverflowError::new_err(()))?;
    let rest = microseconds.rem_euclid(MICROSECONDS_A_DAY);
    let days = i32::try_from(microseconds.div_euclid(MICROSECONDS_A_DAY))?;
    let (seconds, rest) = (rest / MICROSECONDS_A_SECOND, rest % MICROSECONDS_A_SECOND);
    PyDelta::new(py, days, seconds as i32, rest as i32, false)
}

fn times<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>> {
    let counts = microseconds(array);
    // 24:00:00 is no time in Python.
    each_time(py, array, |at| {
        let count = counts[at].filter(|count| (0..MICROSECONDS_A_DAY).contains(count));
        let count = count.ok_or_else(|| PyOverflowError::new_err(()))?;
        let (seconds, rest) = (count / MICROSECONDS_A_SECOND, (count % MICROSECONDS_A_SECOND) as u32);
        let (hour, minute, second) = ((seconds / 3600) as u8, (seconds / 60 % 60) as u8, (seconds % 60) as u8);
        Ok(PyTime::new(py, hour, minute, second, rest, None)?.into_any())
    })
}

/// Timestamps; with a time zone, in the local time of that zone.
fn timestamps<'py>(py: Python<'py>, array: &ArrayRef, zone: Option<&str>) -> PyResult<Objects<'py>> {
    let datetime = py.import("datetime")?;
    let class = datetime.getattr("datetime")?;
    let utc = datetime.getattr("timezone")?.getattr("utc")?;
    let counts = microseconds(array);
    let Some(zone) = zone else {
        let epoch = class.call1((1970, 1, 1))?;
        return each_time(py, array, |at| epoch.add(delta(py, counts[at])?));
    };
    let epoch = class.call1((1970, 1, 1, 0, 0, 0, 0, &utc))?;
    let zone = time_zone(py, zone)?;
    each_time(py, array, |at| {
        let instant = epoch.add(delta(py, counts[at])?)?;
        if zone.is(&utc) { Ok(instant) } else { instant.call_method1("astimezone", (&zone,)) }
    })
}

/// A time zone by name (`Europe/Berlin`), or an offset (`+02:00`).
fn time_zone<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let datetime = py.import("datetime")?;
    let utc = datetime.getattr("timezone")?.getattr("utc")?;
    if ["UTC", "Z", "+00:00", "+0000", "Etc/UTC"].contains(&name) {
        return Ok(utc);
    }
    if name.starts_with(['+', '-']) {
        let class = datetime.getattr("datetime")?;
        return class.call_method1("strptime", (name, "%z"))?.getattr("tzinfo");
    }
    py.import("zoneinfo")?.getattr("ZoneInfo")?.call1((name,))
}

fn durations<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>> {
    let counts = microseconds(array);
    each(py, array, |at| Ok(delta(py, counts[at])?.into_any()))
}

/// Intervals as timedelta. Those with months, whose length depends on the calendar, as SQL writes them.
fn intervals<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>> {
    let unit = IntervalUnit::MonthDayNano;
    let wide = converted(py, array, &DataType::Interval(unit))?;
    let values = wide.as_primitive::<IntervalMonthDayNanoType>();
    let texts = ValueTexts::new(wide.as_ref()).map_err(Error::from).or_raise(py)?;
    each(py, array, |at| {
        let value = values.value(at);
        if value.months != 0 {
            let mut text = String::new();
            texts.append(at, &mut text);
            return Ok(PyString::new(py, &text).into_any());
        }
        let days = PyDelta::new(py, value.days, 0, 0, true)?;
        days.add(delta(py, Some(value.nanoseconds.div_euclid(1000)))?)
    })
}

fn lists<'py, O: OffsetSizeTrait>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>> {
    let lists = array.as_list::<O>();
    each(py, array, |at| Ok(PyList::new(py, objects(py, &lists.value(at))?)?.into_any()))
}

fn fixed_lists<'py>(py: Python<'py>, array: &ArrayRef, length: usize) -> PyResult<Objects<'py>> {
    let values = objects(py, array.as_fixed_size_list().values())?;
    each(py, array, |at| Ok(PyList::new(py, &values[at * length..(at + 1) * length])?.into_any()))
}

/// Maps as dicts. Keys that Python cannot hash are an error.
fn maps<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>> {
    let values = array.as_map();
    let (keys, items) = (objects(py, values.keys())?, objects(py, values.values())?);
    let ends = values.value_offsets();
    each(py, array, |at| {
        let entries = ends[at] as usize..ends[at + 1] as usize;
        let dict = PyDict::new(py);
        // Lists and dictionaries are no keys of a dictionary: such a map is two lists, as in DuckDB.
        if entries.clone().any(|entry| keys[entry].hash().is_err()) {
            dict.set_item("key", PyList::new(py, &keys[entries.clone()])?)?;
            dict.set_item("value", PyList::new(py, &items[entries])?)?;
            return Ok(dict.into_any());
        }
        for entry in entries {
            dict.set_item(&keys[entry], &items[entry])?;
        }
        Ok(dict.into_any())
    })
}

fn structs<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>> {
    let values = array.as_struct();
    let columns = values.columns().iter().map(|column| objects(py, column)).collect::<PyResult<Vec<_>>>()?;
    each(py, array, |at| {
        let dict = PyDict::new(py);
        for (name, column) in values.column_names().into_iter().zip(&columns) {
            dict.set_item(name, &column[at])?;
        }
        Ok(dict.into_any())
    })
}

fn converted(py: Python<'_>, array: &ArrayRef, to: &DataType) -> PyResult<ArrayRef> {
    if array.data_type() == to {
        return Ok(array.clone());
    }
    cast(array, to).map_err(Error::from).or_raise(py)
}
