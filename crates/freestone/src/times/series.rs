//! `generate_series` and `range` in FROM over constants: integers, which DataFusion counts, and dates and timestamps from
//! a start to an end, in steps of an interval, which may be negative.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::memory::{LazyBatchGenerator, LazyMemoryExec};
use parking_lot::RwLock;

use super::arrays::{
    INTERVAL, exact_cast, finished, infinite, infinity, integers, interval_of, is_span, out_of_range, per_second,
    ticks, to_instant,
};
use super::function::wrong_types;
use super::interval::{Interval, SECOND_NS};
use super::operators::step;
use super::zone::Zone;
use crate::error::Error;

/// Registers these functions, which take precedence over the session's functions of the same names over numbers.
pub(crate) fn register(state: &mut SessionState) {
    for (name, includes_end) in [("generate_series", true), ("range", false)] {
        if let Some(numbers) = state.table_functions().get(name).cloned() {
            state.register_udtf(name, Arc::new(Series { name, includes_end, numbers: numbers.function().clone() }));
        }
    }
}

struct Series {
    name: &'static str,
    includes_end: bool,
    /// The function over numbers.
    numbers: Arc<dyn TableFunctionImpl>,
}

impl fmt::Debug for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl TableFunctionImpl for Series {
    fn call_with_args(&self, arguments: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let values: Option<Vec<ScalarValue>> = arguments.exprs().iter().map(constant).collect();
        let is_time = |value: &ScalarValue| {
            matches!(
                value.data_type(),
                DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 | DataType::Interval(_)
            )
        };
        let is_integer = |value: &ScalarValue| value.data_type().is_integer() || value.is_null();
        match values {
            Some(values) if values.iter().any(is_time) => {
                let zone = Zone::of_session(arguments.session().config_options());
                let rows = Rows::of(self.name, &values, zone, self.includes_end)?;
                Ok(Arc::new(SeriesTable(rows)))
            }
            Some(values) if values.iter().all(is_integer) => {
                let integer = |value: ScalarValue| match value.is_null() {
                    true => Ok(Expr::Literal(ScalarValue::Null, None)),
                    false => Ok(Expr::Literal(value.cast_to(&DataType::Int64)?, None)),
                };
                let integers = values.into_iter().map(integer).collect::<Result<Vec<Expr>>>()?;
                self.numbers.call_with_args(TableFunctionArgs::new(&integers, arguments.session()))
            }
            _ => {
                let form = "integers, or two times and an interval";
                let given = arguments.exprs().iter().map(|e| e.get_type(&DFSchema::empty()));
                wrong_types(self.name, form, &given.collect::<Result<Vec<_>>>()?)
            }
        }
    }
}

fn constant(expression: &Expr) -> Option<ScalarValue> {
    match expression {
        Expr::Literal(value, _) => Some(value.clone()),
        _ => None,
    }
}

/// The types of a start, an end and a step as lists of times take them: the first two are those of the result.
pub(crate) fn types(start: &DataType, end: &DataType, by: &DataType) -> Option<[DataType; 3]> {
    let is_time = |kind: &DataType| {
        matches!(kind, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) | DataType::Null)
    };
    let is_known = [start, end].iter().any(|kind| **kind != DataType::Null);
    if !is_time(start) || !is_time(end) || !is_known || !is_span(by) && *by != DataType::Null {
        return None;
    }
    let to = type_of(start, end);
    Some([to.clone(), to, INTERVAL])
}

/// The type of the times from a start to an end.
fn type_of(start: &DataType, end: &DataType) -> DataType {
    let unit = |kind: &DataType| match kind {
        DataType::Timestamp(unit, _) => Some(per_second(*unit)),
        _ => None,
    };
    let zoned = [start, end].into_iter().find_map(|kind| match kind {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    });
    let finest = [unit(start), unit(end)].into_iter().flatten().max();
    let unit = match finest {
        Some(1_000_000_000) => TimeUnit::Nanosecond,
        _ => TimeUnit::Microsecond,
    };
    DataType::Timestamp(unit, zoned)
}

impl Rows {
    /// The times from a start to an end, with the values of the arguments.
    ///
    /// # Errors
    /// The values are not two times and an interval, are infinite, or the interval is zero.
    pub fn of(name: &'static str, values: &[ScalarValue], zone: Zone, includes_end: bool) -> Result<Rows> {
        let form = || {
            let hint = format!("{name}(TIMESTAMP '2024-01-01', TIMESTAMP '2024-02-01', INTERVAL '1 day')");
            DataFusionError::from(
                Error::invalid(format!("{name} over times takes a start, an end and an interval")).with_hint(hint),
            )
        };
        let [start, end, by] = values else { return Err(form()) };
        let to = type_of(&start.data_type(), &end.data_type());
        let by = match by {
            ScalarValue::IntervalMonthDayNano(by) => by.map(interval_of),
            value if value.is_null() => None,
            _ => return Err(form()),
        };
        let (start, end) = (ticks_of(start, &to, &zone)?, ticks_of(end, &to, &zone)?);
        if [start, end].into_iter().flatten().any(|ticks| infinite(ticks, &to).is_some()) {
            return Err(Error::invalid(format!("{name} from or to infinity has no end")).into());
        }
        let has_all = start.is_some() && end.is_some() && by.is_some();
        let by = by.unwrap_or_default();
        let length = by.length_ns();
        if has_all && length == 0 {
            return Err(Error::invalid(format!("the step of {name} is zero")).into());
        }
        let start = start.filter(|_| has_all);
        Ok(Rows {
            name,
            schema: Arc::new(Schema::new(vec![Field::new("value", to, false)])),
            start,
            next: start,
            end: end.unwrap_or_default(),
            by,
            forth: length > 0,
            includes_end,
            zone: (!zone.is_utc()).then_some(zone),
            batch_rows: 0,
        })
    }

    /// About how many times there are.
    pub fn count(&self) -> u64 {
        let DataType::Timestamp(unit, _) = self.schema.field(0).data_type() else { return 0 };
        let tick = i128::from(SECOND_NS / per_second(*unit));
        let span = self.start.map_or(0, |start| i128::from(self.end.abs_diff(start)));
        let steps = span * tick / self.by.length_ns().abs().max(1);
        let is_empty = self.start.is_none_or(|start| self.is_over(start));
        if is_empty { 0 } else { u64::try_from(steps).unwrap_or(u64::MAX).saturating_add(1) }
    }

    /// Adds up to `rows` of the remaining times to a vector.
    ///
    /// # Errors
    /// A time cannot be computed.
    pub fn read(mut self, rows: usize, values: &mut Vec<i64>) -> Result<Rows> {
        let DataType::Timestamp(unit, zone) = self.schema.field(0).data_type() else {
            return Err(out_of_range("timestamp"));
        };
        let zone = self.zone.as_ref().filter(|_| zone.is_some());
        for _ in 0..rows {
            let Some(value) = self.next.filter(|value| !self.is_over(*value)) else {
                self.next = None;
                break;
            };
            values.push(value);
            // A value outside of the range is also after the end.
            let next = step(value, self.by, 1, per_second(*unit), zone)?;
            self.next = next.filter(|next| *next != value);
        }
        Ok(self)
    }
}

/// A date or timestamp as ticks of a type; nothing for NULL.
fn ticks_of(value: &ScalarValue, to: &DataType, zone: &Zone) -> Result<Option<i64>> {
    let DataType::Timestamp(unit, to_zone) = to else { return Err(out_of_range("timestamp")) };
    if value.is_null() {
        return Ok(None);
    }
    let array = value.to_array()?;
    let kind = value.data_type();
    let (local, source) = match kind {
        DataType::Date32 | DataType::Date64 => {
            let days = integers(&exact_cast(&array, &DataType::Date32)?)?.value(0);
            (infinite(days, &DataType::Date32).map_or(days.checked_mul(86_400), |sign| Some(infinity(sign, to))), 1)
        }
        DataType::Timestamp(unit, _) => (Some(ticks(&array)?.0.value(0)), per_second(unit)),
        other => return wrong_types("a series", "dates and timestamps", &[other]),
    };
    if let Some(is_positive) = local.and_then(|local| infinite(local, to)) {
        return Ok(Some(infinity(is_positive, to)));
    }
    let target = per_second(*unit);
    let local = local.and_then(|local| local.checked_mul(target / source)).ok_or_else(|| out_of_range("timestamp"))?;
    let is_local = to_zone.is_some() && !matches!(kind, DataType::Timestamp(_, Some(_)));
    if is_local { to_instant(local, target, zone) } else { Ok(local) }.map(Some)
}

#[derive(Debug)]
struct SeriesTable(Rows);

#[async_trait]
impl TableProvider for SeriesTable {
    fn schema(&self) -> SchemaRef {
        self.0.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let batch_rows = state.config().batch_size();
        let rows: Arc<RwLock<dyn LazyBatchGenerator>> = Arc::new(RwLock::new(Rows { batch_rows, ..self.0.clone() }));
        let scan = LazyMemoryExec::try_new(self.schema(), vec![rows])?;
        Ok(Arc::new(scan.with_projection(projection.cloned())))
    }
}

/// The remaining times.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    name: &'static str,
    schema: SchemaRef,
    /// `None` if an argument is NULL.
    start: Option<i64>,
    next: Option<i64>,
    end: i64,
    by: Interval,
    forth: bool,
    includes_end: bool,
    /// The zone of calendar steps; `None` for UTC.
    zone: Option<Zone>,
    batch_rows: usize,
}

impl Rows {
    fn is_over(&self, value: i64) -> bool {
        let ends = value == self.end && !self.includes_end;
        ends || if self.forth { value > self.end } else { value < self.end }
    }
}

impl LazyBatchGenerator for Rows {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn generate_next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let mut values = vec![];
        *self = self.clone().read(self.batch_rows.max(1), &mut values)?;
        if values.is_empty() {
            return Ok(None);
        }
        let column: ArrayRef = finished(Int64Array::from(values), self.schema.field(0).data_type())?;
        Ok(Some(RecordBatch::try_new(self.schema.clone(), vec![column])?))
    }

    fn reset_state(&self) -> Arc<RwLock<dyn LazyBatchGenerator>> {
        Arc::new(RwLock::new(Rows { next: self.start, ..self.clone() }))
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: by {}", self.name, self.by.text())
    }
}
