//! The tests of a dynamic filter that concern some of its columns.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr, lit};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_expr_common::physical_expr::{snapshot_generation, snapshot_physical_expr};

type Filter = Arc<dyn PhysicalExpr>;

/// Whether an expression has a dynamic filter, which an operator above makes more selective while rows are read.
pub(crate) fn is_dynamic(e: &Filter) -> bool {
    e.exists(|e| Ok(e.is::<DynamicFilterPhysicalExpr>() || e.is::<PartialFilter>())).unwrap_or(false)
}

/// A filter on the input of an operator that has some columns of a dynamic filter on its output, as an aggregation has only
/// the keys of a join by keys and a minimum: those conjuncts of what the filter currently is that need no other column.
#[derive(Debug)]
pub(crate) struct PartialFilter {
    /// The filter on the output.
    of: Filter,
    /// Some columns of the output.
    columns: Vec<usize>,
    /// What each of them is in the input.
    inputs: Vec<Filter>,
}

impl PartialFilter {
    /// A dynamic filter of which parts may be pushed further than all of it.
    pub fn whole(filter: Filter) -> Filter {
        PartialFilter::with(&filter, |column| Some(Arc::new(column.clone()))).unwrap_or(filter)
    }

    /// The tests of such a filter on columns that `below` finds in the input; `None` if it is another one, or has none of them.
    pub fn of(filter: &Filter, below: impl Fn(usize) -> Option<Filter>) -> Option<Filter> {
        if !filter.is::<PartialFilter>() {
            return None;
        }
        PartialFilter::with(filter, |column| below(column.index()))
    }

    fn with(filter: &Filter, below: impl Fn(&Column) -> Option<Filter>) -> Option<Filter> {
        let mut found: Vec<Column> = collect_columns(filter).into_iter().collect();
        found.sort_unstable_by_key(Column::index);
        let inputs = found.iter().filter_map(|column| Some((column.index(), below(column)?)));
        let (columns, inputs): (Vec<usize>, Vec<Filter>) = inputs.unzip();
        (!columns.is_empty()).then(|| Arc::new(PartialFilter { of: filter.clone(), columns, inputs }) as Filter)
    }

    /// What the filter currently is.
    fn current(&self) -> Result<Filter> {
        let now = snapshot_physical_expr(self.of.clone())?;
        let has = |column: &Column| self.columns.contains(&column.index());
        let kept = split_conjunction(&now).into_iter().filter(|test| collect_columns(test).iter().all(has));
        let tests = kept.map(|test| self.below(test)).collect::<Result<Vec<_>>>()?;
        Ok(if tests.is_empty() { lit(true) } else { conjunction(tests) })
    }

    fn below(&self, test: &Filter) -> Result<Filter> {
        let changed = test.clone().transform_down(|node| {
            let place = node.downcast_ref::<Column>().and_then(|column| self.place(column.index()));
            // What is put in its place has columns of the input.
            Ok(match place {
                Some(input) => Transformed::new(input.clone(), true, TreeNodeRecursion::Jump),
                None => Transformed::no(node),
            })
        })?;
        Ok(changed.data)
    }

    fn place(&self, column: usize) -> Option<&Filter> {
        self.inputs.get(self.columns.iter().position(|known| *known == column)?)
    }
}

impl PartialEq for PartialFilter {
    fn eq(&self, other: &Self) -> bool {
        self.of.eq(&other.of) && self.columns == other.columns && self.inputs == other.inputs
    }
}

impl Eq for PartialFilter {}

impl Hash for PartialFilter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.of.hash(state);
        self.inputs.hash(state);
    }
}

impl fmt::Display for PartialFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.current() {
            Ok(current) => write!(f, "DynamicFilter [ {current} ]"),
            Err(_) => f.write_str("DynamicFilter [ empty ]"),
        }
    }
}

impl PhysicalExpr for PartialFilter {
    fn return_field(&self, _: &Schema) -> Result<FieldRef> {
        Ok(Arc::new(Field::new("filter", DataType::Boolean, true)))
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.current()?.evaluate(batch)
    }

    fn children(&self) -> Vec<&Filter> {
        self.inputs.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, inputs: Vec<Filter>) -> Result<Filter> {
        Ok(Arc::new(PartialFilter { of: self.of.clone(), columns: self.columns.clone(), inputs }))
    }

    fn snapshot(&self) -> Result<Option<Filter>> {
        self.current().map(Some)
    }

    fn snapshot_generation(&self) -> u64 {
        snapshot_generation(&self.of)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::BinaryExpr;

    use super::*;

    fn column(name: &str, at: usize) -> Filter {
        Arc::new(Column::new(name, at))
    }

    fn at_least(of: Filter, value: i64) -> Filter {
        Arc::new(BinaryExpr::new(of, Operator::GtEq, lit(value)))
    }

    #[test]
    fn tests_of_other_columns_are_left_out_now_and_when_the_filter_changes() -> Result<()> {
        let all = Arc::new(DynamicFilterPhysicalExpr::new(vec![column("key", 0), column("least", 1)], lit(true)));
        let below = |at: usize| (at == 0).then(|| column("k", 7));
        let partial = PartialFilter::of(&PartialFilter::whole(all.clone()), below).expect("one column is known");
        assert!(is_dynamic(&partial));
        assert_eq!(snapshot_physical_expr(partial.clone())?.to_string(), "true");
        let before = snapshot_generation(&partial);
        all.update(conjunction([at_least(column("key", 0), 3), at_least(column("least", 1), 5)]))?;
        assert_ne!(snapshot_generation(&partial), before);
        assert_eq!(snapshot_physical_expr(partial.clone())?.to_string(), "k@7 >= 3");
        // One that needs both columns says nothing of one.
        all.update(Arc::new(BinaryExpr::new(
            at_least(column("key", 0), 3),
            Operator::Or,
            at_least(column("least", 1), 5),
        )))?;
        assert_eq!(snapshot_physical_expr(partial.clone())?.to_string(), "true");
        // Further below, the column has another place.
        all.update(at_least(column("key", 0), 4))?;
        let further = partial.with_new_children(vec![column("id", 2)])?;
        assert_eq!(snapshot_physical_expr(further)?.to_string(), "id@2 >= 4");
        Ok(())
    }

    #[test]
    fn other_filters_are_not_weakened() {
        let both = conjunction([at_least(column("a", 0), 3), at_least(column("b", 1), 5)]);
        assert!(PartialFilter::of(&both, |at| (at == 0).then(|| column("a", 0))).is_none());
        let all: Filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![column("a", 0)], lit(true)));
        assert!(PartialFilter::of(&all, |at| Some(column("a", at))).is_none());
        assert!(PartialFilter::of(&PartialFilter::whole(all), |_| None).is_none());
    }
}
