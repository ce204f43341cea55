//! The types of columns that a statement declares.

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use freestone_binder::SqlType;
use freestone_sql::tree::Type;
use freestone_store::schema::TableSchema;

use crate::catalog::Scope;
use crate::error::{Error, Result};
use crate::exec::constraints::Constraints;
use crate::exec::write::WriteContext;
use crate::settings;
use crate::sql::text_types::TextType;
use crate::text_types::declared;

/// The digits behind the second that stored times have at least.
const DIGITS: u8 = 6;

/// Columns that are declared with these types. Those of texts of which only some are allowed get a CHECK. `text` is that of the
/// statement.
///
/// # Errors
/// A type does not exist, or no column can have it.
pub(crate) fn declared(
    context: &WriteContext,
    scope: &Scope,
    columns: &[(&str, &Type)],
    text: &str,
    constraints: &mut Constraints,
) -> Result<Vec<Field>> {
    let written: Vec<&Type> = columns.iter().map(|(_, written)| *written).collect();
    let known = context.planner().types(scope, &written, text)?;
    let mut fields = vec![];
    for ((name, written), known) in columns.iter().zip(known) {
        if let Some(texts) = TextType::of(&known) {
            constraints.add_text_type(name, &texts);
        }
        if let Some((kept, is_enforced)) = kept(context, written) {
            constraints.add_type(name, kept, is_enforced);
        }
        fields.push(Field::new(*name, of_column(name, written, &known)?, true));
    }
    Ok(fields)
}

/// What a table keeps of the type that is declared for a column, and whether it limits the length of texts in this session.
pub(crate) fn kept(context: &WriteContext, written: &Type) -> Option<(String, bool)> {
    let checks = || settings::checks_lengths(context.planner().settings().config_options());
    declared::kept(written).map(|kept| (kept, declared::length(written).is_some() && checks()))
}

/// The type that a column gets whose values are there already.
///
/// # Errors
/// As for [`declared`]; or its values are texts of which only some are allowed.
pub(crate) fn changed(
    context: &WriteContext,
    scope: &Scope,
    (name, written): (&str, &Type),
    text: &str,
) -> Result<DataType> {
    let known = context.planner().types(scope, &[written], text)?;
    let Some(known) = known.first() else { return Err(Error::invalid("a column without a type")) };
    match TextType::of(known) {
        None | Some(TextType::Json) => {}
        Some(TextType::Enum(_)) => return Err(no_change_to("an ENUM")),
        Some(TextType::Normal(kind)) => return Err(no_change_to(&kind.name())),
        // No name of a type has a collation.
        Some(TextType::Collated(_)) => {}
    }
    stored(name, written, known)
}

/// The type of the values that a column of a type has in a table.
pub(crate) fn stored(name: &str, written: &Type, known: &SqlType) -> Result<DataType> {
    let field = Field::new(name, of_column(name, written, known)?, true);
    let columns = TableSchema::from_arrow(&Schema::new(vec![field]))?.columns;
    let first = columns.into_iter().next();
    first.map(|column| column.data_type).ok_or_else(|| Error::invalid("a column without a type"))
}

fn no_change_to(what: &str) -> Error {
    Error::unsupported(format!("ALTER TYPE to {what} is not available"))
        .with_hint("add a column of the type, UPDATE it, and drop the other")
}

fn of_column(name: &str, written: &Type, known: &SqlType) -> Result<DataType> {
    match known {
        SqlType::Rounded(_, 0..DIGITS) => Err(Error::unsupported(format!("column {name}: {written} is not available"))
            .with_hint("leave the digits out, and round in queries: CAST(a AS TIME(0))")),
        known => Ok(known.data_type()),
    }
}
