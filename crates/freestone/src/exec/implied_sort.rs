//! The sort order that referential integrity implies for the rows of a join (Halverson et al. 2006, section 2.2). All rows of a
//! join that belong to one row of a referenced table repeat its values: sorted by its key, they are runs, which `rle_levels`
//! stores once.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use freestone_store::Table;
use freestone_store::design::{Design, option_name};
use freestone_store::schema::TableSchema;

use crate::optimizer::redundant_joins::{declares_reference, stored_column};
use crate::sql::command::OptionList;

/// Adds to the sort order of a new table what the joins of its query imply, if `rle_levels` asks for more columns than `sort` has.
/// Options that are wrong stay as they are, for the message of those who read them.
pub(super) fn complete(options: &mut OptionList, plan: &LogicalPlan, schema: &TableSchema) {
    let place = |wanted: &str| options.iter().position(|(name, _)| option_name(name) == wanted);
    let levels = place("rle_levels").and_then(|at| options[at].1.parse::<usize>().ok());
    let (Some(levels), sort) = (levels, place("sort")) else { return };
    // Without a sort order, the table's own keys have the first word.
    if sort.is_none() && !schema.foreign_keys.is_empty() {
        return;
    }
    let written = sort.map(|at| ("sort", options[at].1.as_str()));
    let Ok(design) = Design::default().with_options(written, schema) else { return };
    let named = design.sort_columns(schema);
    if named.len() >= levels {
        return;
    }
    let implied = columns(plan).into_iter().filter(|column| !named.contains(column));
    let names = named.iter().copied().chain(implied).filter_map(|column| Some(&schema.columns.get(column)?.name));
    let sortable = names.filter(|name| schema.ordered_index_of(name, "sort").is_ok());
    let list: Vec<String> = sortable.map(|name| format!("\"{}\"", name.replace('"', "\"\""))).collect();
    match sort {
        Some(at) => options[at].1 = list.join(", "),
        None if !list.is_empty() => options.push(("sort".to_owned(), list.join(", "))),
        None => {}
    }
}

/// The columns of a query that come from referenced tables, those of a table before those of the tables that refer to it. Of each
/// table the primary key comes first, if it is there; otherwise the rows of one row are found by all of its columns.
fn columns(plan: &LogicalPlan) -> Vec<usize> {
    let references = references(plan);
    let output = (0..plan.schema().fields().len()).filter_map(|at| Some((at, stored_column(plan, at)?)));
    let mut columns: Vec<(usize, bool, usize)> = output
        .filter(|(_, (table, _))| references.iter().any(|[_, referenced]| *referenced == table.id))
        .map(|(at, (table, column))| {
            let is_key = table.schema.primary_key.contains(&table.schema.columns[column].name);
            (depth(table.id, &references, references.len()), !is_key, at)
        })
        .collect();
    columns.sort_unstable();
    columns.into_iter().map(|(.., at)| at).collect()
}

/// The length of the longest chain of references from a table on.
fn depth(table: u64, references: &[[u64; 2]], limit: usize) -> usize {
    if limit == 0 {
        return 0;
    }
    let referenced = references.iter().filter(|[from, _]| *from == table);
    referenced.map(|[_, to]| 1 + depth(*to, references, limit - 1)).max().unwrap_or(0)
}

/// The tables that a query joins by declared foreign keys: that of the key, and the referenced one.
fn references(plan: &LogicalPlan) -> Vec<[u64; 2]> {
    let mut found = vec![];
    let mut add = |from: Option<(Arc<Table>, usize)>, to: Option<(Arc<Table>, usize)>| {
        let (Some(from), Some(to)) = (from, to) else { return };
        for (key, referenced) in [(&from, &to), (&to, &from)] {
            if key.0.id != referenced.0.id && declares_reference((&key.0, key.1), (&referenced.0, referenced.1)) {
                found.push([key.0.id, referenced.0.id]);
            }
        }
    };
    // A visitor that returns no error.
    let _ = plan.apply(|node| {
        let conditions = match node {
            LogicalPlan::Join(join) => {
                for (left, right) in &join.on {
                    add(column_of(&join.left, left), column_of(&join.right, right));
                }
                join.filter.as_ref().map(|filter| (node, filter))
            }
            LogicalPlan::Filter(filter) => Some((filter.input.as_ref(), &filter.predicate)),
            _ => None,
        };
        let Some((input, condition)) = conditions else { return Ok(TreeNodeRecursion::Continue) };
        for part in split_conjunction(condition) {
            if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = part {
                add(column_of(input, left), column_of(input, right));
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found.sort_unstable();
    found.dedup();
    found
}

/// The stored column that an expression over a plan's rows is.
fn column_of(plan: &LogicalPlan, expression: &Expr) -> Option<(Arc<Table>, usize)> {
    let Expr::Column(column) = expression else { return None };
    stored_column(plan, plan.schema().maybe_index_of_column(column)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_of_references_end_also_in_circles() {
        // 1 → 2 → 3, and 4 ⇄ 5.
        let references = [[1, 2], [2, 3], [4, 5], [5, 4]];
        let depths = [1, 2, 3, 4].map(|table| depth(table, &references, references.len()));
        assert_eq!(depths, [2, 1, 0, 4]);
    }
}
