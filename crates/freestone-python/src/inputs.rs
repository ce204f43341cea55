//! The inputs of statements from Python: parameter values, and tables.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatchReader;
use arrow::datatypes::{DataType, Field, FieldRef};
use freestone::{ArrowTable, Error, ErrorKind, Inputs, ParameterNames, Result, ScalarValue, Statement};
use parking_lot::Mutex;
use pyo3::PyTypeInfo;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyFloat, PyInt, PyList, PyMemoryView, PyString,
    PyTime, PyTuple,
};

use crate::capsule;
use crate::error::{OrRaise, raise};
use crate::nested;
use crate::numpy_times;

/// The maximum number of digits of a decimal.
const DECIMAL_DIGITS: usize = 38;

/// The ordinal of 1970-01-01, since Python counts days from the year 1.
const EPOCH_ORDINAL: i64 = 719_163;

/// The values of a statement's parameters: a sequence by number, or a dict by name.
pub fn values(statement: &Statement, given: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<ScalarValue>> {
    let Some(given) = given else { return Ok(vec![]) };
    let py = given.py();
    let names = statement.parameter_names().or_raise(py)?;
    match (&names, given.cast::<PyDict>()) {
        (ParameterNames::Names(names), Ok(dict)) => {
            let unused = dict.keys().iter().find(|key| !names.iter().any(|name| key.eq(name).unwrap_or(false)));
            if let Some(unused) = unused {
                let message = format!("the statement has no parameter ${unused}");
                let hint = format!("its parameters are: ${}", names.join(", $"));
                return Err(raise(py, "ProgrammingError", &message, Some(&hint)));
            }
            names.iter().map(|name| named(dict, name)).collect()
        }
        (ParameterNames::Names(_), Err(_)) => Err(raise(
            py,
            "ProgrammingError",
            "the statement's parameters have names, and the values have none",
            Some("give a dict: {\"name\": value}"),
        )),
        (ParameterNames::Numbers(0), Ok(dict)) if dict.is_empty() => Ok(vec![]),
        (ParameterNames::Numbers(_), Ok(_)) => Err(raise(
            py,
            "ProgrammingError",
            "the values have names, and the statement's parameters have none",
            Some("write parameters as $name, or give a list"),
        )),
        (ParameterNames::Numbers(_), Err(_)) => numbered(given),
    }
}

fn named(dict: &Bound<'_, PyDict>, name: &str) -> PyResult<ScalarValue> {
    match dict.get_item(name)? {
        Some(value) => scalar(&value, &format!("parameter ${name}"), 0),
        None => {
            let message = format!("parameter ${name} has no value");
            Err(raise(dict.py(), "ProgrammingError", &message, Some("add it to the dict")))
        }
    }
}

fn numbered(given: &Bound<'_, PyAny>) -> PyResult<Vec<ScalarValue>> {
    if given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>() || given.try_iter().is_err() {
        let message = format!("parameters are a list or a dict, not {}", given.get_type().name()?);
        return Err(raise(given.py(), "ProgrammingError", &message, Some("put the value in a list: [value]")));
    }
    let values = given.try_iter()?.enumerate();
    values.map(|(at, value)| scalar(&value?, &format!("parameter ${}", at + 1), 0)).collect()
}

/// The maximum number of lists and dicts inside each other. A list that contains itself has no end.
const DEPTH_MAX: usize = 64;

/// A Python value as an SQL value, inside of `depth` others. `place` is for error messages.
fn scalar(value: &Bound<'_, PyAny>, place: &str, depth: usize) -> PyResult<ScalarValue> {
    let py = value.py();
    if depth > DEPTH_MAX {
        return Err(refused(py, place, &format!("more than {DEPTH_MAX} lists and dicts inside each other")));
    }
    if value.is_none() {
        return Ok(ScalarValue::Null);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(ScalarValue::Boolean(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyInt>() {
        return integer(value, place);
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(ScalarValue::Float64(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(ScalarValue::Utf8(Some(value.extract()?)));
    }
    let is_bytes = value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>();
    if is_bytes || value.is_instance_of::<PyMemoryView>() {
        let bytes = PyBytes::type_object(py).call1((value,))?;
        return Ok(ScalarValue::Binary(Some(bytes.extract()?)));
    }
    if let Some(scalar) = date_or_time(value, place)? {
        return Ok(scalar);
    }
    if let Some(scalar) = nested(value, place, depth)? {
        return Ok(scalar);
    }
    foreign(value, place, depth)
}

/// A list or tuple as a list, a dict as a struct.
fn nested(value: &Bound<'_, PyAny>, place: &str, depth: usize) -> PyResult<Option<ScalarValue>> {
    let built = if let Ok(dict) = value.cast::<PyDict>() {
        let fields = dict.iter().map(|(name, value)| {
            let named = name.cast::<PyString>().map_err(|_| refused(value.py(), place, "keys of a dict are text"))?;
            Ok((named.to_string(), scalar(&value, place, depth + 1)?))
        });
        nested::structure(fields.collect::<PyResult<Vec<_>>>()?)
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let elements = value.try_iter()?.map(|element| scalar(&element?, place, depth + 1));
        nested::list(elements.collect::<PyResult<Vec<_>>>()?)
    } else {
        return Ok(None);
    };
    let placed = |error: Error| Error::new(ErrorKind::Type, format!("{place}: {error}"));
    built.map_err(placed).or_raise(value.py()).map(Some)
}

/// Sets of parameters, each a list, tuple or dict, as tables with a column per parameter.
pub fn sets(statement: &Statement, given: &Bound<'_, PyAny>) -> PyResult<Vec<ArrowTable>> {
    let width = statement.parameter_names().or_raise(given.py())?.count();
    let sets = given.try_iter()?.map(|set| values(statement, Some(&set?)));
    nested::tables(sets.collect::<PyResult<Vec<_>>>()?, width).or_raise(given.py())
}

fn integer(value: &Bound<'_, PyAny>, place: &str) -> PyResult<ScalarValue> {
    if let Ok(small) = value.extract::<i64>() {
        return Ok(ScalarValue::Int64(Some(small)));
    }
    if let Ok(large) = value.extract::<u64>() {
        return Ok(ScalarValue::UInt64(Some(large)));
    }
    let digits = value.str()?.to_string();
    let count = digits.trim_start_matches('-').len();
    match digits.parse::<i128>() {
        Ok(number) if count <= DECIMAL_DIGITS => Ok(ScalarValue::Decimal128(Some(number), DECIMAL_DIGITS as u8, 0)),
        _ => Err(refused(value.py(), place, "the number has more than 38 digits")),
    }
}

fn date_or_time(value: &Bound<'_, PyAny>, place: &str) -> PyResult<Option<ScalarValue>> {
    let py = value.py();
    if value.is_instance_of::<PyDateTime>() {
        // pandas.NaT claims to be a datetime, but is none.
        if value.getattr("year")?.extract::<i32>().is_err() {
            return Ok(Some(ScalarValue::Null));
        }
        return timestamp(value).map(Some);
    }
    if value.is_instance_of::<PyDate>() {
        let days = value.call_method0("toordinal")?.extract::<i64>()? - EPOCH_ORDINAL;
        return Ok(Some(ScalarValue::Date32(Some(days as i32))));
    }
    if value.is_instance_of::<PyTime>() {
        if !value.getattr("tzinfo")?.is_none() {
            return Err(refused(py, place, "TIME has no time zone"));
        }
        let part = |name: &str| value.getattr(name)?.extract::<i64>();
        let seconds = part("hour")? * 3600 + part("minute")? * 60 + part("second")?;
        return Ok(Some(ScalarValue::Time64Microsecond(Some(seconds * 1_000_000 + part("microsecond")?))));
    }
    if value.is_instance_of::<PyDelta>() {
        let part = |name: &str| value.getattr(name)?.extract::<i64>();
        let days = part("days")?;
        let nanoseconds = part("seconds")? * 1_000_000_000 + part("microseconds")? * 1000;
        let days = i32::try_from(days).map_err(|_| refused(py, place, "the interval is too long"))?;
        return Ok(Some(ScalarValue::new_interval_mdn(0, days, nanoseconds)));
    }
    Ok(None)
}

/// A datetime; with a time zone, the instant in UTC. pandas.Timestamp has nanoseconds.
fn timestamp(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    let py = value.py();
    let has_zone = !value.call_method0("utcoffset")?.is_none();
    let utc = py.import("datetime")?.getattr("timezone")?.getattr("utc")?;
    let value = if has_zone { value.call_method1("astimezone", (utc,))? } else { value.clone() };
    let part = |name: &str| value.getattr(name)?.extract::<i64>();
    let days = value.call_method0("toordinal")?.extract::<i64>()? - EPOCH_ORDINAL;
    let seconds = days * 86_400 + part("hour")? * 3600 + part("minute")? * 60 + part("second")?;
    let microseconds = seconds * 1_000_000 + part("microsecond")?;
    let zone = has_zone.then(|| Arc::from("UTC"));
    match part("nanosecond").unwrap_or(0) {
        0 => Ok(ScalarValue::TimestampMicrosecond(Some(microseconds), zone)),
        nanoseconds => Ok(ScalarValue::TimestampNanosecond(Some(microseconds * 1000 + nanoseconds), zone)),
    }
}

/// Values of types outside of Python's own: decimal.Decimal, uuid.UUID, numpy scalars, pandas.NA.
fn foreign(value: &Bound<'_, PyAny>, place: &str, depth: usize) -> PyResult<ScalarValue> {
    let py = value.py();
    let class = value.get_type();
    let (module, name) = (class.module()?.to_string(), class.name()?.to_string());
    match (module.split('.').next().unwrap_or_default(), name.as_str()) {
        ("decimal" | "_decimal" | "_pydecimal", "Decimal") => decimal(value, place),
        ("uuid", "UUID") => Ok(ScalarValue::Utf8(Some(value.str()?.to_string()))),
        ("pandas", "NAType" | "NaTType") => Ok(ScalarValue::Null),
        ("numpy", "datetime64" | "timedelta64") => numpy_times::scalar(value).and_then(|made| {
            made.ok_or_else(|| {
                refused(py, place, &format!("numpy.{name} {value} is out of range, or has smaller units"))
            })
        }),
        ("numpy", "longdouble" | "float128" | "float96") => {
            let double: f64 = value.call_method0("__float__")?.extract()?;
            let is_same = double.is_nan() || value.eq(double)?;
            let scalar = is_same.then_some(ScalarValue::Float64(Some(double)));
            scalar.ok_or_else(|| refused(py, place, "the number has more digits than a DOUBLE"))
        }
        ("numpy", "ndarray") => {
            scalar(PyList::new(py, value.try_iter()?.collect::<PyResult<Vec<_>>>()?)?.as_any(), place, depth)
        }
        ("numpy", _) if value.hasattr("item")? && !value.hasattr("__len__")? => {
            let item = value.call_method0("item")?;
            // Those without a Python type, such as complex numbers of 32 bytes, remain as they are.
            match item.get_type().is(&class) {
                true => Err(refused(py, place, &format!("numpy.{name} has no SQL type"))),
                false => scalar(&item, place, depth + 1),
            }
        }
        _ => Err(refused(py, place, &format!("{module}.{name} has no SQL type"))),
    }
}

fn decimal(value: &Bound<'_, PyAny>, place: &str) -> PyResult<ScalarValue> {
    let py = value.py();
    let parts = value.call_method0("as_tuple")?;
    let Ok(exponent) = parts.getattr("exponent")?.extract::<i32>() else {
        return Err(refused(py, place, &format!("DECIMAL has no {}", value.str()?)));
    };
    let digits: Vec<u8> = parts.getattr("digits")?.extract()?;
    let zeros = usize::try_from(exponent).unwrap_or(0);
    let scale = usize::try_from(-exponent).unwrap_or(0);
    if digits.len() + zeros > DECIMAL_DIGITS || scale > DECIMAL_DIGITS {
        return Err(refused(py, place, "the number has more than 38 digits"));
    }
    let all = digits.iter().copied().chain(std::iter::repeat_n(0, zeros));
    let number = all.fold(0i128, |number, digit| number * 10 + i128::from(digit));
    let is_negative = parts.getattr("sign")?.extract::<u8>()? == 1;
    let number = if is_negative { -number } else { number };
    let precision = (digits.len() + zeros).max(scale).max(1);
    Ok(ScalarValue::Decimal128(Some(number), precision as u8, scale as i8))
}

fn refused(py: Python<'_>, place: &str, why: &str) -> PyErr {
    let hint = "values are int, float, bool, str, bytes, Decimal, date, datetime, time, timedelta, UUID, None, lists and dicts of them";
    raise(py, "DataError", &format!("{place}: {why}"), Some(hint))
}

/// Tables for the names that the database does not have. `find` returns for a name None, or an object that supplies its
/// rows as Arrow and whether these can be read repeatedly (a DataFrame) or once (a stream).
pub fn tables(py: Python<'_>, names: Vec<String>, find: &Bound<'_, PyAny>) -> PyResult<HashMap<String, ArrowTable>> {
    let mut tables = HashMap::new();
    for name in names {
        let found = find.call1((&name,))?;
        if found.is_none() {
            continue;
        }
        let (object, stays): (Bound<'_, PyAny>, bool) = found.extract()?;
        if !capsule::is_arrow(&object) {
            continue;
        }
        let table = table(py, &object, stays).map_err(|error| unreadable(py, &name, error))?;
        tables.insert(name, table);
    }
    Ok(tables)
}

fn table(py: Python<'_>, object: &Bound<'_, PyAny>, stays: bool) -> PyResult<ArrowTable> {
    let reader = capsule::import(object)?;
    let schema = reader.schema();
    schema.fields().iter().try_for_each(|field| check_meaning(field)).or_raise(py)?;
    if !stays {
        return Ok(ArrowTable::of_reader(&schema, once(reader)));
    }
    let held = py.detach(|| {
        let batches = reader.collect::<Result<Vec<_>, _>>()?;
        ArrowTable::of_batches(&schema, batches)
    });
    held.or_raise(py)
}

/// Fails for a column whose values are not those of its storage, or have no type of SQL.
fn check_meaning(field: &Field) -> Result<()> {
    let refused = |what: &str, hint: &str| {
        let message = format!("column {:?}: SQL has no type for {what}", field.name());
        Err(Error::new(ErrorKind::Unsupported, message).with_hint(hint))
    };
    match (field.metadata().get("ARROW:extension:name").map(String::as_str), field.data_type()) {
        (Some("pandas.period"), _) => refused("periods", "give their starts as timestamps: .dt.start_time"),
        (Some("pandas.interval"), _) => refused("intervals between two values", "give columns of both ends"),
        (_, DataType::Union(..)) => refused("unions", "give a column for each of their types"),
        (_, data_type) => children(data_type).into_iter().try_for_each(|child| check_meaning(&child)),
    }
}

/// The fields inside of a nested type.
fn children(data_type: &DataType) -> Vec<FieldRef> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _)
        | DataType::RunEndEncoded(_, item) => vec![item.clone()],
        DataType::Struct(fields) => fields.to_vec(),
        _ => vec![],
    }
}

/// The error for an object that cannot supply its rows.
fn unreadable(py: Python<'_>, name: &str, cause: PyErr) -> PyErr {
    if !cause.is_instance_of::<PyException>(py) {
        return cause;
    }
    let error = raise(py, "DataError", &format!("cannot read {name}: {}", cause.value(py)), None);
    error.set_cause(py, Some(cause));
    error
}

/// Returns a reader to the first caller only.
fn once(
    reader: impl RecordBatchReader + Send + 'static,
) -> impl Fn() -> Result<Box<dyn RecordBatchReader + Send>> + Send + Sync {
    let left = Mutex::new(Some(reader));
    move || match left.lock().take() {
        Some(reader) => Ok(Box::new(reader)),
        None => Err(Error::new(ErrorKind::Invalid, "a stream of Arrow batches can be read once, and was")
            .with_hint("make a pyarrow.Table of it to read it again: reader.read_all()")),
    }
}

/// All inputs of a statement.
pub fn gather(values: Vec<ScalarValue>, tables: HashMap<String, ArrowTable>) -> Inputs {
    Inputs { values, tables: Arc::new(tables), ..Inputs::default() }
}
