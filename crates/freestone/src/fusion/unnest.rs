//! UNNEST of lists → a row per element. Lists that a query writes as `[a, b]` are not built.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::unnest::UnnestExec;
use freestone_exec::convert::form_of;
use freestone_exec::unnest::{Interleave, Unnest, takes};
use freestone_exec::vector::Form;

use super::compiler::{Compiler, Open, place};
use super::expressions::{Expressions, Known};
use crate::small_batches::of_unnest;

/// The most elements of a list that a query writes.
const ELEMENTS_MAX: usize = 16;

/// Whether a node makes rows of lists in a way that is known.
pub(super) fn is_known(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<UnnestExec>().is_some_and(|unnest| lists(unnest).is_some())
}

/// The columns of an UNNEST that are lists. The other ones have values that are not copied where they are repeated.
fn lists(unnest: &UnnestExec) -> Option<Vec<usize>> {
    let (from, to) = (unnest.input().schema(), unnest.schema());
    let lists: Vec<usize> = unnest.list_column_indices().iter().map(|list| list.index_in_input_schema).collect();
    let is_flat = unnest.struct_column_indices().is_empty() && from.fields().len() == to.fields().len();
    let is_once = unnest.list_column_indices().iter().all(|list| list.depth == 1);
    let is_known = |(column, field): (usize, &Arc<datafusion::arrow::datatypes::Field>)| match lists.contains(&column) {
        true => takes(field.data_type()),
        false => form_of(field.data_type()) != Form::Arrow,
    };
    (is_flat && is_once && !lists.is_empty() && from.fields().iter().enumerate().all(is_known)).then_some(lists)
}

impl Compiler<'_> {
    pub(super) fn unnest(&mut self, unnest: &UnnestExec) -> Result<Option<Open>> {
        let Some(lists) = lists(unnest) else { return Ok(None) };
        let mark = self.mark();
        let open = match self.written_list(unnest, &lists)? {
            Some(open) => Some(open),
            None => {
                self.reset(mark);
                self.stored_lists(unnest, lists)?
            }
        };
        self.sought += usize::from(open.is_some());
        Ok(open)
    }

    fn stored_lists(&mut self, unnest: &UnnestExec, lists: Vec<usize>) -> Result<Option<Open>> {
        let mut open = self.open_or_input(of_unnest(unnest))?;
        for list in &lists {
            let element = unnest.schema().field(*list).data_type().clone();
            open.columns[*list] = Known::of(&element, true);
        }
        let options = unnest.options();
        let (keeps_null, keeps_empty) = (options.preserve_nulls(), options.expand_empty_as_null());
        open.step(Arc::new(Arc::new(Unnest { lists, keeps_null, keeps_empty })));
        Ok(Some(Open { schema: unnest.schema(), ..open }))
    }

    /// The elements of one list that the projection below writes.
    fn written_list(&mut self, unnest: &UnnestExec, lists: &[usize]) -> Result<Option<Open>> {
        let Some(projection) = of_unnest(unnest).downcast_ref::<ProjectionExec>() else { return Ok(None) };
        let (&[list], expressions) = (lists, projection.expr()) else { return Ok(None) };
        let element = unnest.schema().field(list).data_type().clone();
        let Some(elements) = written(&expressions[list].expr, &element, &projection.input().schema())? else {
            return Ok(None);
        };
        let mut open = self.open_or_input(projection.input())?;
        let mut compiler = Expressions::new(&open.schema, &open.columns);
        let (mut outputs, mut parts, mut columns, mut known) = (vec![], vec![], vec![], vec![]);
        for part in elements {
            let Some(compiled) = compiler.compile(part)? else { return Ok(None) };
            if compiled.known.form != form_of(&element) {
                return Ok(None);
            }
            parts.push(place(&mut compiler, &mut outputs, compiled));
        }
        for (column, e) in expressions.iter().enumerate() {
            if column == list {
                columns.push(None);
                known.push(Known::of(&element, true));
                continue;
            }
            let Some(compiled) = compiler.compile(&e.expr)? else { return Ok(None) };
            known.push(compiled.known.clone());
            columns.push(Some(place(&mut compiler, &mut outputs, compiled)));
        }
        let program = compiler.program;
        self.program_step(&mut open, program);
        open.step(Arc::new(Arc::new(Interleave { parts, columns })));
        Ok(Some(Open { schema: unnest.schema(), columns: known, ..open }))
    }
}

/// The elements of a list that an expression writes, if they are of the type of the list's.
fn written<'a>(
    e: &'a Arc<dyn PhysicalExpr>,
    element: &DataType,
    schema: &datafusion::arrow::datatypes::Schema,
) -> Result<Option<&'a [Arc<dyn PhysicalExpr>]>> {
    let Some(call) = e.downcast_ref::<ScalarFunctionExpr>().filter(|call| call.fun().name() == "make_array") else {
        return Ok(None);
    };
    let is_few = (1..=ELEMENTS_MAX).contains(&call.args().len()) && Interleave::takes(form_of(element));
    for part in call.args() {
        if part.data_type(schema)? != *element {
            return Ok(None);
        }
    }
    Ok(is_few.then_some(call.args()))
}
