//! CREATE SEQUENCE, and the sequences of SERIAL and identity columns.

use datafusion::arrow::datatypes::DataType;
use freestone_sql::tree::{ColumnDefinition, CreateSequence, Expr, SequenceOption, Type, TypeKind};
use freestone_store::schema::{Identity, TableSchema};
use freestone_store::{Snapshot, WriteTransaction};

use crate::context::Outcome;
use crate::definitions;
use crate::error::{Error, Result};
use crate::sequences::{self, Sequence, catalog_name, named_in};
use crate::sql::names::kept_name;
use crate::sql::statement::{literal, quote};
use crate::sql::trees;

/// The numbers of BIGINT, which sequences have unless they are of another type.
const ALL: (i64, i64) = (i64::MIN, i64::MAX);

/// A column whose values come from a sequence.
#[derive(Debug, Clone)]
pub(crate) struct Generated {
    pub column: String,
    /// `None` for SERIAL.
    pub identity: Option<Identity>,
    pub options: Vec<SequenceOption>,
}

/// The sequence of a column of type SERIAL.
pub(crate) fn serial(column: &ColumnDefinition) -> Option<Generated> {
    const NAMES: [&str; 6] = ["smallserial", "serial2", "serial", "serial4", "bigserial", "serial8"];
    let name = simple_name(column.data_type.as_ref()?)?;
    let column = column.name.text.clone();
    NAMES.contains(&name).then(|| Generated { column, identity: None, options: vec![] })
}

/// The name of a type that is one word without numbers behind it.
fn simple_name(data_type: &Type) -> Option<&str> {
    match &data_type.kind {
        TypeKind::Named { name, modifiers } if modifiers.is_empty() => match name.parts.as_slice() {
            [only] => Some(&only.text),
            _ => None,
        },
        _ => None,
    }
}

/// `CREATE SEQUENCE [IF NOT EXISTS] name [AS type] [options]`.
pub(crate) fn create(transaction: &mut WriteTransaction, create: &CreateSequence) -> Result<Outcome> {
    let outcome = Ok(Outcome::Done { verb: "CREATE SEQUENCE" });
    let sequence = declared(ALL, &create.options)?;
    let name = kept_name(&create.name)?;
    transaction.lock_name(&name)?;
    let snapshot = transaction.snapshot();
    if create.if_not_exists && sequences::find(&snapshot, &name).is_some() {
        return outcome;
    }
    sequences::check_free(&snapshot, &name)?;
    definitions::check_new(&snapshot, &create.name)?;
    sequences::create(transaction, &name, &sequence)?;
    outcome
}

/// Refuses a DEFAULT that names a sequence which does not exist.
pub(crate) fn check_named(snapshot: &Snapshot, sql: &str) -> Result<()> {
    for named in named_in(&trees::parsed(sql)?) {
        let name = catalog_name(&named)?;
        if sequences::find(snapshot, &name).is_none() {
            return Err(sequences::missing(snapshot, &name));
        }
    }
    Ok(())
}

/// Creates the sequences of a table's columns, and makes them the defaults of these columns.
pub(crate) fn generate(
    transaction: &mut WriteTransaction,
    table: &str,
    schema: &mut TableSchema,
    generated: Vec<Generated>,
) -> Result<()> {
    for Generated { column, identity, options } in generated {
        let at = schema.index_of(&column)?;
        if schema.default_of(at).is_some() {
            return Err(Error::invalid(format!("column {column} has two defaults"))
                .with_hint("leave out DEFAULT: the values of the column come from a sequence"));
        }
        let (min, max) = match schema.columns[at].data_type {
            DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
            DataType::Int64 => (i64::MIN, i64::MAX),
            _ => {
                return Err(Error::invalid(format!("column {column} cannot be GENERATED AS IDENTITY"))
                    .with_hint("its type must be SMALLINT, INT or BIGINT"));
            }
        };
        if options.iter().any(|option| matches!(option, SequenceOption::As(_))) {
            return Err(Error::invalid(format!("the numbers of column {column} are of the type of the column"))
                .with_hint("leave AS out"));
        }
        let sequence = declared((min, max), &options)?;
        let name = sequences::free_name(&transaction.snapshot(), &format!("{table}_{column}_seq"));
        transaction.lock_name(&name)?;
        sequences::create(transaction, &name, &sequence)?;
        let text = name.split('.').map(quote).collect::<Vec<_>>().join(".");
        let sql = format!("nextval({})", literal(&text));
        schema.set_generated(at, sql, identity, name);
        schema.columns[at].nullable = false;
    }
    Ok(())
}

/// The numbers of a type.
fn range_of(data_type: &Type) -> Result<(i64, i64)> {
    match simple_name(data_type) {
        Some("bigint" | "int8" | "int64" | "long") => Ok(ALL),
        Some("int" | "integer" | "int4" | "int32") => Ok((i32::MIN.into(), i32::MAX.into())),
        Some("smallint" | "int2" | "int16" | "short") => Ok((i16::MIN.into(), i16::MAX.into())),
        _ => Err(Error::invalid(format!("a sequence cannot be of type {data_type}"))
            .with_hint("there are SMALLINT, INT and BIGINT")),
    }
}

/// A sequence from its options. The number of it is given when it is created.
fn declared(mut range: (i64, i64), options: &[SequenceOption]) -> Result<Sequence> {
    use SequenceOption as Given;
    let (mut increment, mut min, mut max, mut start, mut cycle) = (1, None, None, None, false);
    for option in options {
        match option {
            Given::As(data_type) => range = range_of(data_type)?,
            Given::Increment(value) => increment = number(value)?,
            Given::MinValue(value) => min = value.as_ref().map(number).transpose()?,
            Given::MaxValue(value) => max = value.as_ref().map(number).transpose()?,
            Given::Start(value) => start = Some(number(value)?),
            // Numbers are reserved in blocks anyway.
            Given::Cache(value) => {
                number(value)?;
            }
            Given::Cycle(cycles) => cycle = *cycles,
        }
    }
    let rises = increment > 0;
    let min = min.unwrap_or(if rises { 1 } else { range.0 });
    let max = max.unwrap_or(if rises { range.1 } else { -1 });
    let start = start.unwrap_or(if rises { min } else { max });
    let invalid =
        |what: String| Err(Error::invalid(what).with_hint("choose MINVALUE ≤ START ≤ MAXVALUE within the type"));
    if increment == 0 {
        return Err(Error::invalid("INCREMENT must not be zero"));
    }
    if min >= max || min < range.0 || max > range.1 {
        return invalid(format!("a sequence cannot have MINVALUE {min} and MAXVALUE {max}"));
    }
    if !(min..=max).contains(&start) {
        return invalid(format!("START {start} is not between MINVALUE {min} and MAXVALUE {max}"));
    }
    Ok(Sequence { id: 0, start, increment, min, max, cycle })
}

/// A whole number of an option.
fn number(value: &Expr) -> Result<i64> {
    let text = value.to_string().replace(['_', ' '], "");
    text.parse().map_err(|_| Error::invalid(format!("{value} is no whole number of 64 bits")))
}
