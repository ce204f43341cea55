//! `generate_series` and `range` over dates and timestamps: from a start to an end, in steps of an interval, which may
//! be negative.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::memory::{LazyBatchGenerator, LazyMemoryExec};
use parking_lot::RwLock;

use super::arrays::{exact_cast, finished, integers, interval_of, out_of_range, per_second, ticks, to_instant};
use super::interval::Interval;
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
        match values {
            Some(values) if values.iter().any(is_time) => {
                let zone = Zone::of_session(arguments.session().config_options());
                Ok(Arc::new(self.of_times(&values, zone)?))
            }
            _ => self.numbers.call_with_args(arguments),
        }
    }
}

fn constant(expression: &Expr) -> Option<ScalarValue> {
    match expression {
        Expr::Literal(value, _) => Some(value.clone()),
        _ => None,
    }
}

impl Series {
    fn of_times(&self, values: &[ScalarValue], zone: Zone) -> Result<SeriesTable> {
        let form = || {
            let name = self.name;
            let hint = format!("{name}(TIMESTAMP '2024-01-01', TIMESTAMP '2024-02-01', INTERVAL '1 day')");
            DataFusionError::from(
                Error::invalid(format!("{name} over times takes a start, an end and an interval")).with_hint(hint),
            )
        };
        let [start, end, by] = values else { return Err(form()) };
        let unit = |value: &ScalarValue| match value.data_type() {
            DataType::Timestamp(unit, _) => Some(per_second(unit)),
            _ => None,
        };
        let zoned = [start, end].iter().find_map(|value| match value.data_type() {
            DataType::Timestamp(_, zone) => zone,
            _ => None,
        });
        let finest = [unit(start), unit(end)].into_iter().flatten().max();
        let unit = match finest {
            Some(1_000_000_000) => TimeUnit::Nanosecond,
            _ => TimeUnit::Microsecond,
        };
        let to = DataType::Timestamp(unit, zoned);
        let ticks_of = |value: &ScalarValue| -> Result<Option<i64>> {
            if value.is_null() {
                return Ok(None);
            }
            let array = value.to_array()?;
            let (local, source) = match value.data_type() {
                DataType::Date32 | DataType::Date64 => {
                    let days = integers(&exact_cast(&array, &DataType::Date32)?)?.value(0);
                    (days.checked_mul(86_400), 1)
                }
                DataType::Timestamp(unit, _) => (Some(ticks(&array)?.0.value(0)), per_second(unit)),
                _ => return Err(form()),
            };
            let target = per_second(unit);
            let value_zone = matches!(value.data_type(), DataType::Timestamp(_, Some(_)));
            let local =
                local.and_then(|local| local.checked_mul(target / source)).ok_or_else(|| out_of_range("timestamp"))?;
            let is_local = matches!(to, DataType::Timestamp(_, Some(_))) && !value_zone;
            if is_local { to_instant(local, target, &zone) } else { Ok(local) }.map(Some)
        };
        let by = match by {
            ScalarValue::IntervalMonthDayNano(by) => by.map(interval_of),
            value if value.is_null() => None,
            _ => return Err(form()),
        };
        let (start, end) = (ticks_of(start)?, ticks_of(end)?);
        let has_all = start.is_some() && end.is_some() && by.is_some();
        let by = by.unwrap_or_default();
        let length = by.length_ns();
        if has_all && length == 0 {
            return Err(Error::invalid(format!("the step of {} is zero", self.name)).into());
        }
        let start = start.filter(|_| has_all);
        Ok(SeriesTable(Rows {
            name: self.name,
            schema: Arc::new(Schema::new(vec![Field::new("value", to, false)])),
            start,
            next: start,
            end: end.unwrap_or_default(),
            by,
            forth: length > 0,
            includes_end: self.includes_end,
            zone: (!zone.is_utc()).then_some(zone),
            batch_rows: 0,
        }))
    }
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
struct Rows {
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
        let DataType::Timestamp(unit, zone) = self.schema.field(0).data_type() else {
            return Err(out_of_range("timestamp"));
        };
        let zone = self.zone.as_ref().filter(|_| zone.is_some());
        let mut values = vec![];
        while values.len() < self.batch_rows.max(1) {
            let Some(value) = self.next.filter(|value| !self.is_over(*value)) else {
                self.next = None;
                break;
            };
            values.push(value);
            // A value outside of the range is also after the end.
            let next = step(value, self.by, 1, per_second(*unit), zone)?;
            self.next = next.filter(|next| *next != value);
        }
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
