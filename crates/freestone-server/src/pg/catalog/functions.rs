//! The functions of `pg_catalog` that clients call. They are evaluated row by row, because they are called for few
//! rows.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListBuilder, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use super::Catalog;
use super::data::{Assigned, Data, Index, PG_CATALOG, PG_TEMP, RelationOids, SequenceOid, catalog_oid, ident};
use super::privileges::{Of, may};
use super::values::Value;
use super::{format, procedures, tables, waiting};
use crate::pg::connection::ChannelChange;
use crate::pg::settings::{Settings, VERSION};
use crate::pg::types::{self, Type};
use freestone::{Error, ErrorKind, Relation};

fn text_or_null(text: Option<String>) -> Value {
    text.map_or(Value::Null, Value::Text)
}

/// The kind of a function's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Int,
    Text,
    Bool,
    TextArray,
}

impl Kind {
    fn data_type(self) -> DataType {
        match self {
            Kind::Int => DataType::Int64,
            Kind::Text => DataType::Utf8,
            Kind::Bool => DataType::Boolean,
            Kind::TextArray => DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))),
        }
    }
}

type Body = fn(&Data, &[Value]) -> Value;

const YES: Body = |_, _| Value::Bool(true);
const NO: Body = |_, _| Value::Bool(false);
const NULL: Body = |_, _| Value::Null;
const ZERO: Body = |_, _| Value::Int(0);

/// Name, kind of result, and implementation.
const FUNCTIONS: &[(&str, Kind, Body)] = &[
    ("version", Kind::Text, |_, _| Value::Text(format!("PostgreSQL {VERSION}"))),
    ("current_database", Kind::Text, |data, _| Value::Text(data.database.clone())),
    ("current_schema", Kind::Text, |data, _| {
        data.searched_schemas().into_iter().next().map_or(Value::Null, Value::Text)
    }),
    ("current_schemas", Kind::TextArray, |data, arguments| {
        let implicit = arguments.first() == Some(&Value::Bool(true));
        let first = implicit.then(|| PG_CATALOG.to_owned());
        Value::TextArray(first.into_iter().chain(data.searched_schemas()).collect())
    }),
    ("current_user", Kind::Text, |data, _| Value::Text(data.user.clone())),
    ("pg_get_userbyid", Kind::Text, |data, arguments| {
        let name =
            data.roles.iter().find(|(name, _)| arguments.first().and_then(Value::int) == Some(data.role_oid(name)));
        Value::Text(name.map_or("unknown".to_owned(), |(name, _)| name.clone()))
    }),
    ("current_setting", Kind::Text, |data, arguments| {
        let shown = arguments.first().and_then(Value::text).and_then(|name| data.settings.shown(name));
        text_or_null(shown.map(|(_, value)| value))
    }),
    ("set_config", Kind::Text, |data, arguments| {
        let (Some(name), value) = (arguments.first().and_then(Value::text), arguments.get(1).and_then(Value::text))
        else {
            return Value::Null;
        };
        let (name, value) = (name.to_owned(), value.unwrap_or_default().to_owned());
        if Settings::knows(&name)
            && let Err(error) = data.settings.clone().set(&name, Some(&value))
        {
            return Value::Refused(error.message);
        }
        let local = arguments.get(2) == Some(&Value::Bool(true));
        data.assigned.add(Assigned { name, value: value.clone(), local });
        Value::Text(value)
    }),
    ("format_type", Kind::Text, |data, arguments| text_or_null(format_type(data, arguments))),
    ("to_regclass", Kind::Int, |data, arguments| match arguments.first() {
        Some(Value::Text(name)) => relation_oid(data, name).map_or(Value::Null, Value::Int),
        Some(Value::Int(oid)) => Value::Int(*oid),
        _ => Value::Null,
    }),
    // Casts of names to `regclass` and `regtype`, for which there must be an object.
    ("pg_regclass", Kind::Int, |data, arguments| match arguments.first() {
        Some(Value::Text(name)) => {
            relation_oid(data, name).map_or_else(|| Value::Missing("relation", name.clone()), Value::Int)
        }
        other => other.cloned().unwrap_or(Value::Null),
    }),
    ("to_regtype", Kind::Int, |data, arguments| match arguments.first() {
        Some(Value::Text(name)) => type_oid(data, name).map_or(Value::Null, Value::Int),
        other => other.cloned().unwrap_or(Value::Null),
    }),
    ("pg_regtype", Kind::Int, |data, arguments| match arguments.first() {
        Some(Value::Text(name)) => {
            type_oid(data, name).map_or_else(|| Value::Missing("type", name.clone()), Value::Int)
        }
        other => other.cloned().unwrap_or(Value::Null),
    }),
    ("pg_regproc_name", Kind::Text, |_, arguments| {
        let Some(oid) = arguments.first().and_then(Value::int) else { return Value::Null };
        Value::Text(procedures::name(oid).map_or_else(|| oid.to_string(), str::to_owned))
    }),
    ("pg_regclass_name", Kind::Text, |data, arguments| {
        let Some(oid) = arguments.first().and_then(Value::int) else { return Value::Null };
        Value::Text(relation_name(data, oid).unwrap_or_else(|| oid.to_string()))
    }),
    ("to_regnamespace", Kind::Int, |data, arguments| match arguments.first().and_then(Value::text) {
        Some("public") => Value::Int(super::data::OID_PUBLIC),
        Some(PG_TEMP) => Value::Int(super::data::OID_PG_TEMP),
        Some(PG_CATALOG) => Value::Int(super::data::OID_PG_CATALOG),
        Some("information_schema") => Value::Int(super::data::OID_INFORMATION_SCHEMA),
        Some(name) if data.schemas.iter().any(|known| known == name) => Value::Int(super::data::schema_oid(name)),
        _ => Value::Null,
    }),
    ("pg_get_constraintdef", Kind::Text, |data, arguments| text_or_null(constraint_text(data, arguments))),
    ("pg_get_indexdef", Kind::Text, |data, arguments| {
        let oid = arguments.first().and_then(Value::int);
        let found = data.indexes().find(|(_, index)| Some(index.oid) == oid);
        text_or_null(found.map(|(table, index)| match arguments.get(1).and_then(Value::int) {
            Some(place @ 1..) => index.columns.get(place as usize - 1).map(|name| ident(name)).unwrap_or_default(),
            _ => index_text(table, index),
        }))
    }),
    ("pg_get_viewdef", Kind::Text, |data, arguments| {
        let oid = arguments.first().and_then(Value::int);
        text_or_null(oid.and_then(|oid| {
            let relation = &data.relation(oid)?.relation;
            let materialized = relation.materialized.as_ref().map(|view| view.query.clone());
            materialized.or_else(|| relation.view.clone())
        }))
    }),
    ("pg_get_expr", Kind::Text, |_, arguments| arguments.first().cloned().unwrap_or(Value::Null)),
    // What is in a schema of its own is found by its whole name only.
    ("pg_table_is_visible", Kind::Bool, |data, arguments| {
        let oid = arguments.first().and_then(Value::int);
        let is_it = |table: &RelationOids| Some(table.oid) == oid || table.indexes.iter().any(|i| Some(i.oid) == oid);
        let table = data.relations.iter().find(|table| is_it(table));
        let sequence = data.sequences.iter().find(|of| Some(of.oid) == oid);
        let schema = table.map(|table| table.schema().1).or_else(|| sequence.map(|of| of.names().1));
        let path = data.search_path();
        let is_searched = |schema: &str| schema == PG_TEMP || path.iter().any(|searched| searched == schema);
        Value::Bool(schema.is_none_or(is_searched))
    }),
    ("pg_type_is_visible", Kind::Bool, YES),
    ("pg_function_is_visible", Kind::Bool, YES),
    ("pg_opclass_is_visible", Kind::Bool, YES),
    ("pg_statistics_obj_is_visible", Kind::Bool, YES),
    ("pg_operator_is_visible", Kind::Bool, YES),
    ("pg_opfamily_is_visible", Kind::Bool, YES),
    ("pg_collation_is_visible", Kind::Bool, YES),
    ("pg_conversion_is_visible", Kind::Bool, YES),
    ("pg_ts_config_is_visible", Kind::Bool, YES),
    ("pg_ts_dict_is_visible", Kind::Bool, YES),
    ("pg_ts_parser_is_visible", Kind::Bool, YES),
    ("pg_ts_template_is_visible", Kind::Bool, YES),
    ("has_language_privilege", Kind::Bool, |data, arguments| privilege(data, arguments, Of::Common)),
    ("has_type_privilege", Kind::Bool, |data, arguments| privilege(data, arguments, Of::Common)),
    ("has_foreign_data_wrapper_privilege", Kind::Bool, YES),
    ("has_server_privilege", Kind::Bool, YES),
    ("has_table_privilege", Kind::Bool, |data, arguments| privilege(data, arguments, Of::Table)),
    ("has_any_column_privilege", Kind::Bool, |data, arguments| privilege(data, arguments, Of::AnyColumn)),
    ("has_column_privilege", Kind::Bool, |data, arguments| privilege(data, arguments, Of::Column)),
    ("has_schema_privilege", Kind::Bool, |data, arguments| privilege(data, arguments, Of::Container)),
    ("has_database_privilege", Kind::Bool, |data, arguments| privilege(data, arguments, Of::Container)),
    ("has_function_privilege", Kind::Bool, |data, arguments| privilege(data, arguments, Of::Common)),
    ("has_sequence_privilege", Kind::Bool, |data, arguments| privilege(data, arguments, Of::Sequence)),
    ("has_tablespace_privilege", Kind::Bool, |data, arguments| privilege(data, arguments, Of::Common)),
    ("pg_has_role", Kind::Bool, YES),
    ("pg_is_in_recovery", Kind::Bool, NO),
    ("pg_is_other_temp_schema", Kind::Bool, NO),
    ("row_security_active", Kind::Bool, NO),
    ("pg_relation_is_publishable", Kind::Bool, NO),
    ("obj_description", Kind::Text, |data, arguments| comment(data, arguments.first(), Some(&Value::Int(0)))),
    ("col_description", Kind::Text, |data, arguments| comment(data, arguments.first(), arguments.get(1))),
    ("shobj_description", Kind::Text, NULL),
    ("pg_get_serial_sequence", Kind::Text, serial_sequence),
    ("pg_get_partkeydef", Kind::Text, NULL),
    // Used in `IN (SELECT …)`. No table is a partition of another.
    ("pg_partition_ancestors", Kind::Int, NULL),
    ("pg_get_partition_constraintdef", Kind::Text, NULL),
    ("pg_get_triggerdef", Kind::Text, NULL),
    ("pg_get_ruledef", Kind::Text, NULL),
    ("pg_get_statisticsobjdef_columns", Kind::Text, NULL),
    ("pg_get_function_arg_default", Kind::Text, NULL),
    ("pg_get_function_sqlbody", Kind::Text, NULL),
    ("pg_get_functiondef", Kind::Text, NULL),
    ("pg_stat_get_numscans", Kind::Int, ZERO),
    ("pg_postmaster_start_time", Kind::Text, NULL),
    ("to_regproc", Kind::Int, |_, arguments| {
        let name = arguments.first().and_then(Value::text).unwrap_or_default();
        match procedures::oid(name.strip_prefix("pg_catalog.").unwrap_or(name)) {
            0 => Value::Null,
            oid => Value::Int(oid),
        }
    }),
    ("pg_tablespace_location", Kind::Text, NULL),
    ("inet_server_addr", Kind::Text, NULL),
    ("inet_client_addr", Kind::Text, NULL),
    ("pg_get_function_arguments", Kind::Text, |_, _| Value::Text(String::new())),
    ("pg_get_function_identity_arguments", Kind::Text, |_, _| Value::Text(String::new())),
    ("pg_get_function_result", Kind::Text, |_, _| Value::Text("TABLE".into())),
    ("pg_encoding_to_char", Kind::Text, |_, _| Value::Text("UTF8".into())),
    ("pg_char_to_encoding", Kind::Int, |_, _| Value::Int(6)),
    ("pg_client_encoding", Kind::Text, |data, _| Value::Text(data.settings.encoding().name().into())),
    ("pg_my_temp_schema", Kind::Int, ZERO),
    ("pg_backend_pid", Kind::Int, |data, _| Value::Int(data.peers.own as i64)),
    ("pg_cancel_backend", Kind::Bool, |data, arguments| stopped(data, arguments, false)),
    ("pg_terminate_backend", Kind::Bool, |data, arguments| stopped(data, arguments, true)),
    ("pg_notify", Kind::Text, |data, arguments| {
        let text = |at: usize| arguments.get(at).and_then(Value::text).unwrap_or_default().to_owned();
        match data.channel_changes.add(ChannelChange::Notify(text(0), text(1))) {
            Ok(()) => Value::Text(String::new()),
            Err(error) => Value::Refused(error.message),
        }
    }),
    ("pg_sleep", Kind::Text, |_, arguments| waiting::sleep(arguments)),
    ("pg_advisory_lock", Kind::Text, |data, arguments| waiting::lock(data, arguments, waiting::SESSION)),
    ("pg_advisory_lock_shared", Kind::Text, |data, arguments| waiting::lock(data, arguments, waiting::SESSION_SHARED)),
    ("pg_advisory_xact_lock", Kind::Text, |data, arguments| waiting::lock(data, arguments, waiting::TRANSACTION)),
    ("pg_advisory_xact_lock_shared", Kind::Text, |data, arguments| {
        waiting::lock(data, arguments, waiting::TRANSACTION_SHARED)
    }),
    ("pg_try_advisory_lock", Kind::Bool, |data, arguments| waiting::try_lock(data, arguments, waiting::SESSION)),
    ("pg_try_advisory_lock_shared", Kind::Bool, |data, arguments| {
        waiting::try_lock(data, arguments, waiting::SESSION_SHARED)
    }),
    ("pg_try_advisory_xact_lock", Kind::Bool, |data, arguments| {
        waiting::try_lock(data, arguments, waiting::TRANSACTION)
    }),
    ("pg_try_advisory_xact_lock_shared", Kind::Bool, |data, arguments| {
        waiting::try_lock(data, arguments, waiting::TRANSACTION_SHARED)
    }),
    ("pg_advisory_unlock", Kind::Bool, |data, arguments| waiting::unlock(data, arguments, false)),
    ("pg_advisory_unlock_shared", Kind::Bool, |data, arguments| waiting::unlock(data, arguments, true)),
    ("pg_advisory_unlock_all", Kind::Text, |data, _| {
        data.advisory_locks.unlock_all(data.peers.own);
        Value::Text(String::new())
    }),
    ("pg_relation_size", Kind::Int, |data, arguments| size(data, arguments, |table| table.bytes)),
    ("pg_table_size", Kind::Int, |data, arguments| size(data, arguments, |table| table.bytes)),
    ("pg_total_relation_size", Kind::Int, |data, arguments| {
        size(data, arguments, |table| table.bytes + table.copy_bytes)
    }),
    // Indexes are in the files of their tables.
    ("pg_indexes_size", Kind::Int, |data, arguments| size(data, arguments, |_| 0)),
    ("pg_database_size", Kind::Int, |data, _| Value::Int(data.bytes() as i64)),
    ("pg_tablespace_size", Kind::Int, |data, _| Value::Int(data.bytes() as i64)),
    ("txid_current", Kind::Int, ZERO),
    ("pg_relation_filenode", Kind::Int, |_, arguments| arguments.first().cloned().unwrap_or(Value::Null)),
    ("pg_size_pretty", Kind::Text, |_, arguments| text_or_null(arguments.first().and_then(Value::int).map(size_text))),
    ("quote_ident", Kind::Text, |_, arguments| text_or_null(arguments.first().and_then(Value::text).map(ident))),
    ("quote_literal", Kind::Text, |_, arguments| {
        text_or_null(arguments.first().and_then(shown).map(|text| format::literal(&text)))
    }),
    ("quote_nullable", Kind::Text, |_, arguments| {
        Value::Text(arguments.first().and_then(shown).map_or_else(|| "NULL".to_owned(), |text| format::literal(&text)))
    }),
];

/// A value as the text that is put in quotes.
fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        Value::Real(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        _ => None,
    }
}

/// Functions that do something: they are called whenever their statement runs.
fn does_something(name: &str) -> bool {
    const DOING: [&str; 5] = ["pg_cancel_backend", "pg_terminate_backend", "pg_notify", "set_config", "pg_sleep"];
    DOING.contains(&name) || name.contains("_advisory_")
}

/// Cancels the statement of a session, or ends the session. False where there is none that this one may stop.
fn stopped(data: &Data, arguments: &[Value], ends: bool) -> Value {
    let number = arguments.first().and_then(Value::int).and_then(|number| u64::try_from(number).ok());
    Value::Bool(number.is_some_and(|number| data.peers.stop(number, ends)))
}

/// All functions, over the catalog of one session.
pub fn all(catalog: &Catalog) -> Vec<Arc<ScalarUDF>> {
    let function = |(name, kind, body): &(&'static str, Kind, Body)| {
        let signature = TypeSignature::OneOf(vec![TypeSignature::Nullary, TypeSignature::VariadicAny]);
        let volatility = if does_something(name) { Volatility::Volatile } else { Volatility::Stable };
        let signature = Signature::new(signature, volatility);
        Arc::new(ScalarUDF::from(Function { name, kind: *kind, body: *body, signature, catalog: catalog.clone() }))
    };
    FUNCTIONS.iter().map(function).collect()
}

#[derive(Debug)]
struct Function {
    name: &'static str,
    kind: Kind,
    body: Body,
    signature: Signature,
    catalog: Catalog,
}

// Functions with the same name are equal.
impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(self.kind.data_type())
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        let rows = call.number_rows;
        let arguments = call.args.iter().map(|argument| argument.to_array(rows)).collect::<Result<Vec<_>, _>>()?;
        let arguments = arguments.iter().map(simple).collect::<Result<Vec<_>, _>>()?;
        let data = self.catalog.data();
        let results = (0..rows).map(|row| {
            let values: Vec<Value> = arguments.iter().map(|argument| value(argument, row)).collect();
            match (self.body)(&data, &values) {
                Value::Missing(kind, name) => Err(missing(kind, &name).into()),
                Value::Refused(message) => Err(Error::new(ErrorKind::Invalid, message).into()),
                Value::Interrupted => Err(freestone::check_statement().err().unwrap_or_else(cancelled).into()),
                value => Ok(value),
            }
        });
        let results = results.collect::<Result<Vec<_>, DataFusionError>>()?;
        Ok(ColumnarValue::Array(array(self.kind, results.into_iter())))
    }
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the statement was cancelled")
}

/// The error of a name of an object that does not exist.
fn missing(kind: &str, name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("no {kind} {name}"))
}

/// The OID of a type by one of its names.
fn type_oid(data: &Data, name: &str) -> Option<i64> {
    if let Ok(oid) = name.parse() {
        return Some(oid);
    }
    let own = name.strip_prefix("public.").or_else(|| name.strip_prefix("\"public\".")).unwrap_or(name);
    let (own, is_array) = own.strip_suffix("[]").map_or((own, false), |own| (own, true));
    let own = match own.strip_prefix('"').and_then(|own| own.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => own.to_lowercase(),
    };
    if data.enums.iter().any(|(known, _)| *known == own) {
        return Some(i64::from(types::enum_oid(&own)) + i64::from(is_array));
    }
    Type::by_sql(&name.replace('"', "")).filter(|oid| *oid != 0).map(i64::from)
}

/// Converts integers to BIGINT, other numbers to DOUBLE, and strings to VARCHAR. Other types remain.
fn simple(array: &ArrayRef) -> Result<ArrayRef, DataFusionError> {
    Ok(match array.data_type() {
        data_type if data_type.is_integer() => cast(array, &DataType::Int64)?,
        data_type if data_type.is_numeric() => cast(array, &DataType::Float64)?,
        DataType::Utf8View | DataType::LargeUtf8 => cast(array, &DataType::Utf8)?,
        _ => array.clone(),
    })
}

fn value(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Int64 => Value::Int(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => Value::Real(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => Value::Text(array.as_string::<i32>().value(row).to_owned()),
        DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
        _ => Value::Null,
    }
}

fn array(kind: Kind, values: impl Iterator<Item = Value>) -> ArrayRef {
    match kind {
        Kind::Int => Arc::new(values.map(|value| value.int()).collect::<Int64Array>()),
        Kind::Text => Arc::new(
            values.map(|value| if let Value::Text(text) = value { Some(text) } else { None }).collect::<StringArray>(),
        ),
        Kind::Bool => Arc::new(
            values.map(|value| if let Value::Bool(is) = value { Some(is) } else { None }).collect::<BooleanArray>(),
        ),
        Kind::TextArray => {
            let mut lists = ListBuilder::new(StringBuilder::new());
            for value in values {
                match value {
                    Value::TextArray(texts) => lists.append_value(texts.into_iter().map(Some)),
                    _ => lists.append_null(),
                }
            }
            Arc::new(lists.finish())
        }
    }
}

fn format_type(data: &Data, arguments: &[Value]) -> Option<String> {
    let oid = u32::try_from(arguments.first()?.int()?).ok()?;
    for (name, _) in &data.enums {
        match oid.checked_sub(types::enum_oid(name)) {
            Some(0) => return Some(ident(name)),
            Some(1) => return Some(format!("{}[]", ident(name))),
            _ => {}
        }
    }
    let modifier = arguments.get(1).and_then(Value::int).unwrap_or(-1);
    if let Some(element) = Type::by_array(oid) {
        return Some(format!("{}[]", with_modifier(element, modifier)));
    }
    Some(Type::by_oid(oid).map_or("???".to_owned(), |known| with_modifier(known, modifier)))
}

/// The name of a type with its length, precision or digits.
fn with_modifier(of: Type, modifier: i64) -> String {
    let digits = |word: &str| match of.sql.split_once(' ') {
        Some((first, rest)) if first == word => format!("{word}({modifier}) {rest}"),
        _ => format!("{}({modifier})", of.sql),
    };
    match of {
        types::NUMERIC if modifier >= 4 => format!("numeric({},{})", (modifier - 4) >> 16, (modifier - 4) & 0x7ff),
        types::VARCHAR | types::BPCHAR if modifier > 4 => format!("{}({})", of.sql, modifier - 4),
        types::TIME | types::TIMETZ if modifier >= 0 => digits("time"),
        types::TIMESTAMP | types::TIMESTAMPTZ if modifier >= 0 => digits("timestamp"),
        types::BIT | types::VARBIT if modifier > 0 => format!("{}({modifier})", of.sql),
        _ => of.sql.to_owned(),
    }
}

/// The comment on a table or view, or on a column of it.
fn comment(data: &Data, oid: Option<&Value>, place: Option<&Value>) -> Value {
    let wanted = (oid.and_then(Value::int), place.and_then(Value::int));
    text_or_null(
        data.comments().find(|(oid, at, _)| wanted == (Some(*oid), Some(*at))).map(|(.., text)| text.to_owned()),
    )
}

/// Whether a user has a privilege on an object, which must exist if it is a table with a name.
fn privilege(data: &Data, arguments: &[Value], of: Of) -> Value {
    match of.table(arguments).filter(|name| relation_oid(data, name).is_none()) {
        Some(name) => Value::Missing("relation", name.to_owned()),
        None => may(data, arguments, of),
    }
}

/// The sequence that numbers the rows of a table in a column.
fn serial_sequence(data: &Data, arguments: &[Value]) -> Value {
    let (Some(table), Some(column)) = (arguments.first().and_then(Value::text), arguments.get(1).and_then(Value::text))
    else {
        return Value::Null;
    };
    let Some(found) = relation_oid(data, table).and_then(|oid| data.relation(oid)) else {
        return Value::Missing("relation", table.to_owned());
    };
    if !found.columns().any(|(known, ..)| known == column) {
        return Value::Missing("column", column.to_owned());
    }
    let is_of = |known: &&SequenceOid| {
        known.sequence.owner.as_ref().is_some_and(|(of, at)| *of == found.relation.name && at == column)
    };
    let sequence = data.sequences.iter().find(is_of).map(SequenceOid::names);
    text_or_null(sequence.map(|(_, schema, name)| format!("{}.{}", ident(schema), ident(name))))
}

/// The OID of a relation from its name, which may be quoted and qualified with our schema.
fn relation_oid(data: &Data, name: &str) -> Option<i64> {
    if let Ok(oid) = name.parse() {
        return Some(oid);
    }
    let name = unquoted(name);
    let last = name.strip_prefix("public.").unwrap_or(&name).to_owned();
    if let Some(table) = data.named(&last) {
        return Some(table.oid);
    }
    let index = data.indexes().find(|(table, index)| table.index_name(index) == last).map(|(_, index)| index.oid);
    let of_catalog = last.strip_prefix("pg_catalog.").unwrap_or(&last);
    let own = tables::names().find(|known| *known == of_catalog).map(catalog_oid);
    let is_it = |known: &&SequenceOid| match &known.in_schema {
        Some(_) => known.sequence.name == last,
        None => known.names().2 == last,
    };
    let sequence = data.sequences.iter().find(is_it).map(|known| known.oid);
    index.or(sequence).or(own)
}

/// A name of one or several parts without the quotes around them.
fn unquoted(name: &str) -> String {
    let (mut out, mut is_quoted) = (String::new(), false);
    let mut chars = name.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.next_if_eq(&'"').is_some() => out.push('"'),
            '"' => is_quoted = !is_quoted,
            _ => out.push(c),
        }
    }
    out
}

fn relation_name(data: &Data, oid: i64) -> Option<String> {
    let index = || data.indexes().find(|(_, index)| index.oid == oid).map(|(table, index)| table.index_name(index));
    let own = || tables::names().find(|known| catalog_oid(known) == oid).map(str::to_owned);
    let sequence = || data.sequences.iter().find(|known| known.oid == oid).map(|known| known.names().2.to_owned());
    let table = data.relation(oid).map(RelationOids::written_name);
    table.or_else(index).or_else(sequence).or_else(own)
}

/// The bytes of a relation; NULL if it does not exist. Those of an index are in its table.
fn size(data: &Data, arguments: &[Value], bytes: fn(&Relation) -> u64) -> Value {
    let oid = match arguments.first() {
        Some(Value::Text(name)) => relation_oid(data, name),
        other => other.and_then(Value::int),
    };
    let is_index = |oid: i64| data.indexes().any(|(_, index)| index.oid == oid);
    match oid.and_then(|oid| data.relation(oid)) {
        Some(table) => Value::Int(bytes(&table.relation) as i64),
        None if oid.is_some_and(is_index) => Value::Int(0),
        None => Value::Null,
    }
}

/// A number of bytes in a unit of which there are at least ten, as in PostgreSQL.
fn size_text(bytes: i64) -> String {
    if bytes.unsigned_abs() < 10 * 1024 {
        return format!("{bytes} bytes");
    }
    // In halves of a unit, which are rounded at the end.
    let mut halves = bytes >> 9;
    for unit in ["kB", "MB", "GB", "TB"] {
        if halves.unsigned_abs() < 20 * 1024 - 1 {
            return format!("{} {unit}", (halves + halves.signum()) / 2);
        }
        halves >>= 10;
    }
    format!("{} PB", (halves + halves.signum()) / 2)
}

fn constraint_text(data: &Data, arguments: &[Value]) -> Option<String> {
    let oid = arguments.first()?.int()?;
    let constraint = data.constraints().into_iter().find(|constraint| constraint.oid == oid)?;
    let list = |columns: &[String]| columns.iter().map(|name| ident(name)).collect::<Vec<_>>().join(", ");
    Some(match constraint.referenced {
        None => match constraint.condition {
            Some(condition) => format!("CHECK ({condition})"),
            None if constraint.kind == "u" => format!("UNIQUE ({})", list(constraint.columns)),
            None => format!("PRIMARY KEY ({})", list(constraint.columns)),
        },
        Some((table, columns)) => {
            let table = data.named(table).map_or_else(|| ident(table), RelationOids::written_name);
            format!("FOREIGN KEY ({}) REFERENCES {table}({})", list(constraint.columns), list(columns))
        }
    })
}

/// The statement that would create an index.
pub fn index_text(table: &RelationOids, index: &Index) -> String {
    let (name, own) = (ident(&index.name), ident(table.own_name()));
    let columns = index.columns.iter().map(|name| ident(name)).collect::<Vec<_>>().join(", ");
    let unique = if index.is_unique { "UNIQUE " } else { "" };
    format!("CREATE {unique}INDEX {name} ON {}.{own} USING btree ({columns})", ident(table.schema().1))
}
