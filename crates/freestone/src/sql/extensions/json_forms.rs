//! `json_each` and `json_tree` in FROM, and `json_transform`, whose type depends on the structure that it is given.

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, SelectItem, TableAlias,
    TableAliasColumnDef, TableFactor, Value,
};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use freestone_binder::JSON;

use super::calls;
use crate::error::{Error, Result};
use crate::json_text::structure::Shape;
use crate::sql::dialect::SqlDialect;
use crate::sql::fragments::{alias, call, quoted, select_query, text};
use crate::sql::names::folded;
use crate::sql::visitor;

/// The function of the entries of JSON as a list.
pub(crate) const JSON_ENTRIES: &str = "freestone_json_entries";

const COLUMNS: [&str; 8] = ["key", "value", "type", "atom", "id", "parent", "fullkey", "path"];

/// Writes `json_each(json, path)` as a query over the unnested entries.
///
/// # Errors
/// The call has another number of arguments.
pub(super) fn table(factor: &mut TableFactor) -> Result<()> {
    let (name, args, alias_of) = match factor {
        TableFactor::Table { name, args: Some(args), alias, .. } => (name, args.args.as_slice(), alias),
        TableFactor::Function { name, args, alias, .. } => (name, args.as_slice(), alias),
        _ => return Ok(()),
    };
    let Some(name) = name.0.last().and_then(|part| part.as_ident()).map(folded) else { return Ok(()) };
    if !matches!(name.as_str(), "json_each" | "json_tree") {
        return Ok(());
    }
    let mut given = args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    let (json, path) = match (given.next(), given.next(), given.next()) {
        (Some(Some(json)), None, None) => (json, text("$")),
        (Some(Some(json)), Some(Some(path)), None) => (json, path),
        _ => return Err(Error::invalid(format!("{name} takes JSON and, optionally, a path"))),
    };
    let entries = call(JSON_ENTRIES, vec![json, path, Expr::value(Value::Boolean(name == "json_tree"))]);
    let unnested = TableFactor::UNNEST {
        alias: Some(TableAlias {
            columns: vec![TableAliasColumnDef { name: Ident::new("e"), data_type: None }],
            ..alias(Ident::new("u"))
        }),
        array_exprs: vec![entries],
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    };
    let columns = COLUMNS.map(|column| SelectItem::ExprWithAlias {
        expr: call("get_field", vec![Expr::Identifier(Ident::new("e")), text(column)]),
        alias: quoted(column),
    });
    let subquery = select_query(columns.to_vec(), unnested)?;
    let alias = alias_of.take().or_else(|| Some(alias(Ident::new(&name))));
    *factor = TableFactor::Derived { lateral: true, subquery, alias, sample: None };
    Ok(())
}

/// Writes `json_transform(json, structure)` and `from_json` as the casts of the values at their paths.
///
/// # Errors
/// The structure is no constant, or is no structure.
pub(super) fn transformed(expr: &mut Expr) -> Result<()> {
    let Expr::Function(function) = expr else { return Ok(()) };
    let is_strict = match folded_name(function).as_deref() {
        Some("json_transform" | "from_json") => false,
        Some("json_transform_strict" | "from_json_strict") => true,
        _ => return Ok(()),
    };
    let wrong = || {
        Err(Error::invalid("json_transform takes JSON and a constant structure").with_hint(
            "write the types of the values as JSON: json_transform(j, '{\"a\": \"INTEGER\", \"b\": [\"VARCHAR\"]}')",
        ))
    };
    let FunctionArguments::List(list) = &function.args else { return wrong() };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(json)), FunctionArg::Unnamed(FunctionArgExpr::Expr(structure))] =
        list.args.as_slice()
    else {
        return wrong();
    };
    let structure = match structure {
        Expr::Value(value) => value.value.clone().into_string(),
        Expr::Cast { expr, .. } => match expr.as_ref() {
            Expr::Value(value) => value.value.clone().into_string(),
            _ => None,
        },
        _ => None,
    };
    let Some(structure) = structure else { return wrong() };
    let shape = Shape::parse(&structure)?;
    *expr = of_shape(call("json", vec![json.clone()]), &shape, is_strict)?;
    Ok(())
}

fn folded_name(function: &Function) -> Option<String> {
    match function.name.0.as_slice() {
        [part] => part.as_ident().map(folded),
        _ => None,
    }
}

/// The text of an expression that makes a value of a structure's type of the JSON called [`JSON`].
///
/// # Errors
/// It is no structure.
pub(crate) fn conversion(structure: &str, is_strict: bool) -> Result<String> {
    converted(&Shape::parse(structure)?, JSON, is_strict, 0)
}

/// JSON as a value of a structure's type.
fn of_shape(json: Expr, shape: &Shape, is_strict: bool) -> Result<Expr> {
    let written = converted(shape, JSON, is_strict, 0)?;
    let mut expr = Parser::new(&SqlDialect).try_with_sql(&written)?.parse_expr()?;
    visitor::expressions_mut(&mut expr, &mut |inner: &mut Expr| match inner {
        Expr::Identifier(name) if name.value == JSON => *inner = json.clone(),
        Expr::Function(call) => calls::lambdas(call),
        _ => {}
    });
    Ok(expr)
}

/// The text of an expression that converts `json`. `depth` is the number of lists around it.
fn converted(shape: &Shape, json: &str, is_strict: bool, depth: usize) -> Result<String> {
    let cast = if is_strict { "CAST" } else { "TRY_CAST" };
    let of_kind = |kind: &str, value: String| match is_strict {
        true => {
            let other = format!("error('expected an {kind} of JSON, found ' || {json})");
            format!("CASE json_type({json}) WHEN '{kind}' THEN {value} WHEN 'NULL' THEN NULL ELSE {other} END")
        }
        // Of anything but an object, all fields are NULL.
        false if kind == "OBJECT" => format!("CASE WHEN json_type({json}) <> 'NULL' THEN {value} END"),
        false => format!("CASE WHEN json_type({json}) = '{kind}' THEN {value} END"),
    };
    Ok(match shape {
        Shape::Value(name) if name.eq_ignore_ascii_case("JSON") => json.to_owned(),
        Shape::Value(name) => {
            let (data_type, is_integer) = known_type(name)?;
            let text = format!("json_extract_string({json}, '$')");
            match is_integer {
                // Numbers with a fraction are rounded.
                true => format!(
                    "CASE json_type({json}) WHEN 'DOUBLE' THEN {cast}(CAST({text} AS DOUBLE) AS {data_type}) \
                     ELSE {cast}({text} AS {data_type}) END"
                ),
                false => format!("{cast}({text} AS {data_type})"),
            }
        }
        Shape::List(item) => {
            let element = format!("__item{depth}");
            let value = converted(item, &element, is_strict, depth + 1)?;
            of_kind("ARRAY", format!("list_transform(json_extract({json}, '$[*]'), {element} -> {value})"))
        }
        Shape::Object(entries) => {
            let entry = |(key, shape): &(String, Shape)| {
                let pointer = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
                let value = format!("json_extract({json}, {})", text(&pointer));
                Ok(format!("{} := {}", quoted(key), converted(shape, &value, is_strict, depth)?))
            };
            let entries = entries.iter().map(entry).collect::<Result<Vec<_>>>()?;
            of_kind("OBJECT", format!("struct_pack({})", entries.join(", ")))
        }
    })
}

/// The name of a type in SQL, and whether it is of integers.
fn known_type(name: &str) -> Result<(String, bool)> {
    if name.eq_ignore_ascii_case("NULL") {
        return Ok(("VARCHAR".to_owned(), false));
    }
    let mut parser = Parser::new(&SqlDialect).try_with_sql(name)?;
    match parser.parse_data_type() {
        Ok(found) if parser.peek_token().token == Token::EOF => {
            let text = found.to_string();
            let is_integer = text.to_ascii_uppercase().contains("INT") && !text.contains(['[', '(']);
            Ok((text, is_integer && !matches!(found, DataType::Interval { .. })))
        }
        _ => Err(Error::invalid(format!("'{name}' in a structure of JSON is no type"))),
    }
}
