//! Names of columns in another case. Names without quotes are folded to lower case, and columns of files often have
//! capitals: `SELECT city FROM 'x.csv'` finds the column `City`, if no column is called `city`.

use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{Expr, Ident, VisitMut};

use super::folded;
use crate::sql::visitor;

/// So many different names of a statement may be written in another case.
pub(crate) const NAMES_MAX: usize = 1_000;

/// Quotes a name that planning did not find, if exactly one column has it in another case. Returns whether something
/// has changed, so that planning again can help.
pub(crate) fn quote(sql: &mut impl VisitMut, error: &DataFusionError) -> bool {
    let Some((missing, found)) = only_other_case(error) else { return false };
    let relation = missing.relation.as_ref().map(|relation| relation.table().to_owned());
    let is_missing = |name: &Ident| name.quote_style.is_none() && folded(name) == missing.name;
    let mut changed = false;
    visitor::expressions_mut(sql, &mut |expr| match expr {
        Expr::Identifier(name) if relation.is_none() && is_missing(name) => {
            *name = Ident::with_quote('"', &found);
            changed = true;
        }
        Expr::CompoundIdentifier(parts) => {
            let [.., qualifier, name] = parts.as_mut_slice() else { return };
            if relation.as_ref().is_some_and(|relation| folded(qualifier) == *relation) && is_missing(name) {
                *name = Ident::with_quote('"', &found);
                changed = true;
            }
        }
        _ => {}
    });
    changed
}

/// The column that is missing, and the only name that differs from it in case.
fn only_other_case(error: &DataFusionError) -> Option<(Column, String)> {
    let DataFusionError::SchemaError(error, _) = error.find_root() else { return None };
    let SchemaError::FieldNotFound { field, valid_fields } = error.as_ref() else { return None };
    let is_other = |column: &&Column| {
        let same_relation = match (&field.relation, &column.relation) {
            (Some(relation), Some(other)) => relation.table() == other.table(),
            (Some(_), None) => false,
            (None, _) => true,
        };
        same_relation && column.name != field.name && column.name.to_lowercase() == field.name
    };
    let mut others = valid_fields.iter().filter(is_other);
    let found = others.next()?.name.clone();
    // Of several tables, the name alone would be ambiguous; of one, two columns differ in case only.
    others.next().is_none().then(|| (field.as_ref().clone(), found))
}
