//! Aggregates with their own ORDER BY, such as `string_agg(a, ',' ORDER BY b)`. The rows of a group are collected,
//! sorted and passed to the aggregate. So each aggregate of a query can have another order, with or without GROUP BY,
//! DISTINCT and FILTER.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListArray, StructArray, UInt32Array, UInt64Array, new_empty_array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{self, SortColumn, SortOptions};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use datafusion::physical_expr::GroupsAccumulatorAdapter;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::scalar::ScalarValue;

use super::sum::passing;
use crate::context::claim_rows;

/// An aggregate whose last arguments are its sort keys.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ordered {
    plain: Arc<AggregateUDF>,
    /// The number of arguments of the aggregate itself.
    arguments: usize,
    options: Vec<SortOptions>,
    /// Whether equal arguments count once.
    distinct: bool,
    signature: Signature,
}

impl Ordered {
    pub fn new(plain: Arc<AggregateUDF>, arguments: usize, options: Vec<SortOptions>, distinct: bool) -> Self {
        let signature = Signature::user_defined(Volatility::Immutable);
        Ordered { plain, arguments, options, distinct, signature }
    }

    fn maker(&self, args: &AccumulatorArgs) -> Maker {
        Maker {
            plain: self.plain.clone(),
            return_field: args.return_field.clone(),
            schema: args.schema.clone(),
            ignore_nulls: args.ignore_nulls,
            name: args.name.to_owned(),
            exprs: args.exprs[..self.arguments].to_vec(),
            expr_fields: args.expr_fields[..self.arguments].to_vec(),
        }
    }

    fn order(&self) -> Order {
        Order { arguments: self.arguments, options: self.options.clone(), distinct: self.distinct }
    }
}

impl AggregateUDFImpl for Ordered {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        Ok(arguments.to_vec())
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.plain.return_type(&arguments[..self.arguments])
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        self.plain.return_field(&arguments[..self.arguments])
    }

    fn is_nullable(&self) -> bool {
        self.plain.is_nullable()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.plain.default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.plain.supports_null_handling_clause()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let rows = Field::new_list_field(DataType::Struct(row_fields(args.input_fields)), false);
        Ok(vec![Arc::new(Field::new_list(format_state_name(args.name, "rows"), rows, false))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let (maker, rows) = (self.maker(&args), Rows::new(args.expr_fields));
        Ok(Box::new(OrderedAccumulator { maker, order: self.order(), rows }))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let (maker, rows) = (self.maker(&args), Rows::new(args.expr_fields));
        Ok(Box::new(RowGroups::new(Box::new(InOrder { maker, order: self.order() }), rows)))
    }
}

/// The fields of a collected row.
pub(super) fn row_fields(arguments: &[FieldRef]) -> Fields {
    let field = |(at, argument): (usize, &FieldRef)| Field::new(format!("c{at}"), argument.data_type().clone(), true);
    arguments.iter().enumerate().map(field).collect()
}

/// Creates accumulators of the aggregate itself.
#[derive(Debug, Clone)]
struct Maker {
    plain: Arc<AggregateUDF>,
    return_field: FieldRef,
    schema: datafusion::arrow::datatypes::Schema,
    ignore_nulls: bool,
    name: String,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl Maker {
    fn args(&self) -> AccumulatorArgs<'_> {
        AccumulatorArgs {
            return_field: self.return_field.clone(),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &[],
            is_reversed: false,
            name: &self.name,
            is_distinct: false,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        }
    }

    fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        self.plain.accumulator(self.args())
    }

    fn groups(&self) -> Result<Box<dyn GroupsAccumulator>> {
        if self.plain.groups_accumulator_supported(self.args()) {
            return self.plain.create_groups_accumulator(self.args());
        }
        let maker = self.clone();
        Ok(Box::new(GroupsAccumulatorAdapter::new(move || maker.accumulator())))
    }
}

/// The order of rows.
#[derive(Debug)]
struct Order {
    arguments: usize,
    options: Vec<SortOptions>,
    distinct: bool,
}

impl Order {
    /// The positions of rows in their order. With DISTINCT, rows with equal arguments occur once. With groups, the rows
    /// of a group are adjacent.
    fn sorted(&self, columns: &[ArrayRef], groups: Option<&ArrayRef>) -> Result<UInt32Array> {
        let rows = columns.first().map_or(0, |column| column.len());
        let plain = |values: &ArrayRef| SortColumn { values: values.clone(), options: None };
        let keys = columns[self.arguments..].iter().zip(&self.options);
        let mut by: Vec<SortColumn> = groups.into_iter().map(plain).collect();
        by.extend(keys.map(|(values, options)| SortColumn { values: values.clone(), options: Some(*options) }));
        if self.distinct {
            by.extend(columns[..self.arguments].iter().map(plain));
        } else {
            // Equal rows remain in the order of arrival.
            let arrival: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..rows as u64));
            by.push(plain(&arrival));
        }
        let places = compute::lexsort_to_indices(&by, None)?;
        if !self.distinct || rows == 0 {
            return Ok(places);
        }
        let compared = groups.into_iter().chain(&columns[..self.arguments]);
        let compared: Vec<ArrayRef> =
            compared.map(|column| compute::take(column, &places, None)).collect::<Result<_, _>>()?;
        let firsts = compute::partition(&compared)?.ranges().into_iter().map(|range| places.value(range.start));
        Ok(UInt32Array::from_iter_values(firsts))
    }
}

/// Collected rows, in batches.
#[derive(Debug)]
pub(super) struct Rows {
    fields: Fields,
    batches: Vec<Vec<ArrayRef>>,
    pub bytes: usize,
}

impl Rows {
    pub fn new(arguments: &[FieldRef]) -> Self {
        Rows { fields: row_fields(arguments), batches: vec![], bytes: 0 }
    }

    pub fn push(&mut self, columns: Vec<ArrayRef>) {
        self.bytes += columns.iter().map(|column| column.get_array_memory_size()).sum::<usize>();
        self.batches.push(columns);
    }

    /// All rows as one batch, which is a copy of them.
    pub fn columns(&self) -> Result<Vec<ArrayRef>> {
        let _claimed = claim_rows("rows of an aggregate", self.bytes as u64)?;
        let column = |(at, field): (usize, &FieldRef)| {
            let parts: Vec<&dyn Array> = self.batches.iter().map(|batch| batch[at].as_ref()).collect();
            match parts.as_slice() {
                [] => Ok(new_empty_array(field.data_type())),
                parts => Ok(compute::concat(parts)?),
            }
        };
        self.fields.iter().enumerate().map(column).collect()
    }

    pub fn take(&mut self) -> Rows {
        let empty = Rows { fields: self.fields.clone(), batches: vec![], bytes: 0 };
        std::mem::replace(self, empty)
    }

    /// Lists of the rows at `places`, one list per length.
    pub fn lists(&self, columns: &[ArrayRef], places: &UInt32Array, lengths: Vec<usize>) -> Result<ListArray> {
        let columns =
            columns.iter().map(|column| compute::take(column, places, None)).collect::<Result<Vec<_>, _>>()?;
        let rows = StructArray::try_new(self.fields.clone(), columns, None)?;
        let field = Field::new_list_field(DataType::Struct(self.fields.clone()), false);
        Ok(ListArray::try_new(Arc::new(field), OffsetBuffer::from_lengths(lengths), Arc::new(rows), None)?)
    }
}

/// The rows of lists, and the lengths of the lists.
pub(super) fn of_lists(states: &[ArrayRef]) -> Result<(Vec<ArrayRef>, Vec<usize>)> {
    let Some(lists) = states.first().and_then(|state| state.as_list_opt::<i32>()) else {
        return internal_err!("collected rows are not a list");
    };
    let offsets = lists.value_offsets();
    let (first, end) = (offsets[0] as usize, offsets[lists.len()] as usize);
    let rows = lists.values().slice(first, end - first);
    let owners =
        (0..lists.len()).flat_map(|list| std::iter::repeat_n(list, (offsets[list + 1] - offsets[list]) as usize));
    Ok((rows.as_struct().columns().to_vec(), owners.collect()))
}

#[derive(Debug)]
struct OrderedAccumulator {
    maker: Maker,
    order: Order,
    rows: Rows,
}

impl Accumulator for OrderedAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.rows.push(values.to_vec());
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.rows.push(of_lists(states)?.0);
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let rows = self.rows.take();
        let columns = rows.columns()?;
        let count = columns.first().map_or(0, |column| column.len());
        let places = UInt32Array::from_iter_values(0..u32::try_from(count).unwrap_or(u32::MAX));
        Ok(vec![ScalarValue::List(Arc::new(rows.lists(&columns, &places, vec![count])?))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let columns = self.rows.columns()?;
        let places = self.order.sorted(&columns, None)?;
        let arguments = &columns[..self.order.arguments];
        let sorted =
            arguments.iter().map(|column| compute::take(column, &places, None)).collect::<Result<Vec<_>, _>>()?;
        let mut plain = self.maker.accumulator()?;
        plain.update_batch(&sorted)?;
        plain.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.rows.bytes
    }
}

/// Computes the results from the rows of groups.
pub(super) trait Finish: Send + Sync {
    /// The result of each of the first `count` groups, from the columns of all rows and the group of each.
    fn finish(&self, columns: &[ArrayRef], groups: Vec<u32>, count: usize) -> Result<ArrayRef>;

    /// The positions of the rows that have an effect; `None` if all have.
    fn reduced(&self, _columns: &[ArrayRef], _groups: &[u32], _count: usize) -> Result<Option<Vec<u32>>> {
        Ok(None)
    }
}

/// Passes rows in their order to the aggregate itself.
struct InOrder {
    maker: Maker,
    order: Order,
}

impl Finish for InOrder {
    fn finish(&self, columns: &[ArrayRef], groups: Vec<u32>, count: usize) -> Result<ArrayRef> {
        let group_column: ArrayRef = Arc::new(UInt32Array::from(groups.clone()));
        let places = self.order.sorted(columns, Some(&group_column))?;
        let arguments = &columns[..self.order.arguments];
        let sorted =
            arguments.iter().map(|column| compute::take(column, &places, None)).collect::<Result<Vec<_>, _>>()?;
        let groups: Vec<usize> = places.values().iter().map(|row| groups[*row as usize] as usize).collect();
        let mut plain = self.maker.groups()?;
        // Accumulators assume that every group has rows, unless there is a filter.
        let all = BooleanArray::from(vec![true; groups.len()]);
        plain.update_batch(&sorted, &groups, Some(&all), count)?;
        plain.evaluate(EmitTo::All)
    }
}

/// The collected rows of groups.
pub(super) struct RowGroups {
    finish: Box<dyn Finish>,
    rows: Rows,
    /// The group of each row.
    groups: Vec<u32>,
    count: usize,
    /// The number of rows that remained after the last reduction.
    reduced: usize,
}

/// The number of rows at which rows without an effect are removed.
const REDUCED_FROM: usize = 1 << 16;

impl RowGroups {
    pub fn new(finish: Box<dyn Finish>, rows: Rows) -> Self {
        RowGroups { finish, rows, groups: vec![], count: 0, reduced: 0 }
    }

    fn push(&mut self, columns: Vec<ArrayRef>, groups: impl Iterator<Item = usize>, count: usize) -> Result<()> {
        self.groups.extend(groups.map(|group| group as u32));
        self.rows.push(columns);
        self.count = count;
        if self.groups.len() < REDUCED_FROM || self.groups.len() < 2 * self.reduced {
            return Ok(());
        }
        let columns = self.rows.columns()?;
        if let Some(kept) = self.finish.reduced(&columns, &self.groups, count)? {
            self.groups = kept.iter().map(|place| self.groups[*place as usize]).collect();
            self.reduced = kept.len();
            let places = UInt32Array::from(kept);
            self.rows.take();
            let columns =
                columns.iter().map(|column| compute::take(column, &places, None)).collect::<Result<_, _>>()?;
            self.rows.push(columns);
        } else {
            self.reduced = usize::MAX / 2;
        }
        Ok(())
    }

    /// Removes the rows of the first groups, or of all. Returns their columns and groups, and the number of groups.
    fn emit(&mut self, emit_to: EmitTo) -> Result<(Rows, Vec<ArrayRef>, Vec<u32>, usize)> {
        let rows = self.rows.take();
        let (columns, groups) = (rows.columns()?, std::mem::take(&mut self.groups));
        let EmitTo::First(first) = emit_to else {
            return Ok((rows, columns, groups, std::mem::take(&mut self.count)));
        };
        let places = |emitted: bool| {
            let of_these = groups.iter().enumerate().filter(|(_, group)| ((**group as usize) < first) == emitted);
            UInt32Array::from_iter_values(of_these.map(|(row, _)| row as u32))
        };
        let at = |places: &UInt32Array| columns.iter().map(|column| compute::take(column, places, None)).collect();
        let (now, later) = (places(true), places(false));
        let (emitted, kept): (Result<Vec<_>, _>, Result<Vec<_>, _>) = (at(&now), at(&later));
        self.rows.push(kept?);
        self.groups = later.values().iter().map(|row| groups[*row as usize] - first as u32).collect();
        self.count -= first;
        let groups = now.values().iter().map(|row| groups[*row as usize]).collect();
        Ok((rows, emitted?, groups, first))
    }
}

impl GroupsAccumulator for RowGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        let Some(filter) = filter else {
            return self.push(values.to_vec(), groups.iter().copied(), count);
        };
        let passed = passing(filter);
        let columns = values.iter().map(|column| compute::filter(column, &passed)).collect::<Result<Vec<_>, _>>()?;
        let groups = groups.iter().enumerate().filter(|(row, _)| passed.value(*row)).map(|(_, group)| *group);
        self.push(columns, groups, count)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        let (columns, owners) = of_lists(states)?;
        self.push(columns, owners.into_iter().map(|list| groups[list]), count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (_, columns, groups, count) = self.emit(emit_to)?;
        self.finish.finish(&columns, groups, count)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (rows, columns, groups, count) = self.emit(emit_to)?;
        let mut lengths = vec![0usize; count];
        groups.iter().for_each(|group| lengths[*group as usize] += 1);
        // The rows per group, in the order of arrival.
        let mut next: Vec<usize> =
            lengths.iter().scan(0, |end, length| Some(std::mem::replace(end, *end + length))).collect();
        let mut places = vec![0u32; groups.len()];
        for (row, group) in groups.iter().enumerate() {
            let at = &mut next[*group as usize];
            places[*at] = row as u32;
            *at += 1;
        }
        Ok(vec![Arc::new(rows.lists(&columns, &UInt32Array::from(places), lengths)?)])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |column| column.len());
        let passed = filter.map(passing);
        let passes = |row: usize| passed.as_ref().is_none_or(|passed| passed.value(row));
        let places = UInt32Array::from_iter_values((0..rows).filter(|row| passes(*row)).map(|row| row as u32));
        let lengths = (0..rows).map(|row| usize::from(passes(row))).collect();
        Ok(vec![Arc::new(self.rows.lists(values, &places, lengths)?)])
    }

    fn size(&self) -> usize {
        self.rows.bytes + self.groups.capacity() * size_of::<u32>()
    }
}
