//! UNPIVOT: a row for each of several columns.

use datafusion_expr::Expr;
use datafusion_expr::expr::Unnest;
use freestone_sql::Span;
use freestone_sql::tree::{self, ExprKind, Star, Unpivot};

use crate::binder::Binder;
use crate::chains::conjunction;
use crate::error::{At, Result, invalid};
use crate::expressions::text;
use crate::headings;
use crate::plans::{self, Rows};
use crate::select::{Block, Item};
use crate::tables::From;

/// The columns that become one row, and the name of the row.
struct Entry {
    values: Vec<Expr>,
    columns: Vec<String>,
    name: String,
}

impl Binder<'_> {
    /// The rows of an UNPIVOT.
    pub fn unpivot(&mut self, unpivot: &Unpivot, span: Span) -> Result<Rows> {
        let From { plan, relations, star } = self.table(&unpivot.source)?;
        let scope = crate::scopes::Scope::new(relations, star, plan.schema().clone());
        let (block, _) = self.within(scope, |binder| binder.unpivoted(unpivot, span))?;
        let values = unpivot.into.as_ref().map_or(1, |into| into.values.len());
        let rows = self.assembled(plan, block, span)?;
        if unpivot.include_nulls {
            return Ok(rows);
        }
        let Rows { plan, names } = rows;
        let schema = plan.schema().clone();
        let first = names.len().saturating_sub(values);
        let is_known = |at| Expr::IsNotNull(Box::new(Expr::Column(plans::column(&schema, at))));
        match conjunction((first..names.len()).map(is_known)) {
            Some(condition) => Ok(Rows { plan: plans::filter(plan, condition).at(span)?, names }),
            None => Ok(Rows { plan, names }),
        }
    }

    fn unpivoted(&mut self, unpivot: &Unpivot, span: Span) -> Result<Block> {
        let (name, values) = match &unpivot.into {
            None => ("name".to_owned(), vec!["value".to_owned()]),
            Some(into) => {
                let values = into.values.iter().map(|value| value.text.clone()).collect();
                (into.name.text.clone(), values)
            }
        };
        let mut items: Vec<Item> = self.star(&Star::default(), span)?;
        let mut entries = vec![];
        for item in &unpivot.columns {
            let alias = item.alias.as_ref().map(|alias| alias.text.clone());
            entries.extend(self.entries(&item.value, alias, &items)?);
        }
        if let Some(wrong) = entries.iter().find(|entry| entry.values.len() != values.len()) {
            let (names, columns) = (values.len(), wrong.values.len());
            let message = format!("UNPIVOT has {names} names for values and {columns} columns for {}", wrong.name);
            return Err(invalid(span, message));
        }
        let is_used = |item: &Item| entries.iter().any(|entry| entry.columns.contains(&item.name));
        items.retain(|item| !is_used(item));
        let names = entries.iter().map(|entry| text(&entry.name)).collect();
        items.push(Item { value: self.unnested_list(names, span)?, name });
        for (at, name) in values.into_iter().enumerate() {
            let column = entries.iter().filter_map(|entry| entry.values.get(at).cloned()).collect();
            items.push(Item { value: self.unnested_list(column, span)?, name });
        }
        Ok(Block { items, ..Block::default() })
    }

    fn unnested_list(&mut self, values: Vec<Expr>, span: Span) -> Result<Expr> {
        let list = self.list_of_values(values, span)?;
        Ok(Expr::Unnest(Unnest { expr: Box::new(list), outer: false }))
    }

    /// The rows that a column, a row of columns, or a star stands for. `all` are the columns of the table.
    fn entries(&mut self, written: &tree::Expr, alias: Option<String>, all: &[Item]) -> Result<Vec<Entry>> {
        let of_items = |items: Vec<Item>| {
            let entry =
                |item: Item| Entry { values: vec![item.value], columns: vec![item.name.clone()], name: item.name };
            items.into_iter().map(entry).collect()
        };
        match &written.kind {
            ExprKind::Star(star) => return self.star(star, written.span).map(of_items),
            ExprKind::Columns(_) => {
                return self.copies(written, None).map(|copies| of_items(copies.unwrap_or_default()));
            }
            _ => {}
        }
        let columns = match &written.kind {
            ExprKind::Row(columns) => columns.iter().collect(),
            _ => vec![written],
        };
        let (mut values, mut names) = (vec![], vec![]);
        for column in columns {
            let value = self.expression(column)?;
            // The name is that of the column, which may be written in another case.
            let own = all.iter().find(|item| item.value == *without_casts(&value));
            names.push(own.map_or_else(|| column_name(column), |item| item.name.clone()));
            values.push(value);
        }
        let name = alias.unwrap_or_else(|| names.join("_"));
        Ok(vec![Entry { values, columns: names, name }])
    }
}

fn without_casts(value: &Expr) -> &Expr {
    match value {
        Expr::Cast(cast) => without_casts(&cast.expr),
        Expr::TryCast(cast) => without_casts(&cast.expr),
        other => other,
    }
}

/// The name of a column, also of one that is cast.
fn column_name(written: &tree::Expr) -> String {
    match &written.kind {
        ExprKind::Cast { operand, .. } => column_name(operand),
        _ => headings::last_name(written),
    }
}
