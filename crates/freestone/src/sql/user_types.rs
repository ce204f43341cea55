//! Types that CREATE TYPE has named, and ENUM and JSON, where a statement names them: in casts, which become calls of
//! functions, and in definitions of columns, which get a CHECK.

use datafusion::sql::sqlparser::ast::{
    self, CastKind, CheckConstraint, ColumnDef, ColumnOption, ColumnOptionDef, DataType, EnumMember, Expr, ObjectName,
    VisitMut,
};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::dialect::SqlDialect;
use super::fragments::call;
use super::names::folded;
use super::spellings;
use super::text_types::{CAST, CAST_OR_NULL, TEXT, TextType, called};
use super::visitor;
use crate::error::{Error, Result};

/// The type that a name stands for, as text.
pub(crate) type Types<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Parses the name of a type.
///
/// # Errors
/// A syntax error.
pub(crate) fn parsed(text: &str) -> Result<DataType> {
    let tokens = Tokenizer::new(&SqlDialect, text).tokenize_with_location().map_err(ParserError::from)?;
    let words = tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let words = spellings::written(words.collect());
    Ok(Parser::new(&SqlDialect).with_tokens_with_locations(words).parse_data_type()?)
}

/// Replaces the names of types, and casts to an ENUM. If a table `has_enums`, casts to VARCHAR take the type away.
///
/// # Errors
/// A type contains an ENUM, or its name is of no type.
pub(crate) fn expand(sql: &mut impl VisitMut, types: &Types, has_enums: bool) -> Result<()> {
    let mut done = Ok(());
    visitor::expressions_mut(sql, &mut |expr| {
        if done.is_ok() {
            done = cast(expr, types);
        }
        if let Expr::Cast { expr: inner, data_type, .. } = expr
            && has_enums
            && is_text(data_type)
        {
            **inner = call(TEXT, vec![std::mem::replace(inner.as_mut(), Expr::value(ast::Value::Null))]);
        }
    });
    done
}

fn is_text(data_type: &DataType) -> bool {
    use DataType::{CharVarying, Character, CharacterVarying, Nvarchar, String, Text, Varchar};
    matches!(
        data_type,
        CharVarying(_) | Character(_) | CharacterVarying(_) | Nvarchar(_) | String(_) | Text | Varchar(_)
    )
}

fn cast(expr: &mut Expr, types: &Types) -> Result<()> {
    let (data_type, or_null) = match expr {
        Expr::Cast { data_type, kind, .. } => (data_type, matches!(kind, CastKind::TryCast | CastKind::SafeCast)),
        Expr::TypedString(typed) => (&mut typed.data_type, false),
        _ => return Ok(()),
    };
    resolve(data_type, types)?;
    let Some(labels) = labels(data_type)? else { return Ok(()) };
    let value = match expr {
        Expr::Cast { expr: inner, .. } => std::mem::replace(inner.as_mut(), Expr::value(ast::Value::Null)),
        Expr::TypedString(typed) => Expr::Value(typed.value.clone()),
        _ => return Ok(()),
    };
    *expr = called(if or_null { CAST_OR_NULL } else { CAST }, value, &labels);
    Ok(())
}

/// Replaces names of types within a type.
///
/// # Errors
/// It contains an ENUM.
pub(crate) fn resolve(data_type: &mut DataType, types: &Types) -> Result<()> {
    use ast::ArrayElemTypeDef::{AngleBracket, Parenthesis, SquareBracket};
    match data_type {
        DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            if let Some(text) = own_name(name).and_then(|name| types(&name)) {
                *data_type = parsed(&text)?;
            } else if let Some(built_in) = in_quotes(name) {
                *data_type = built_in;
            }
        }
        DataType::Array(AngleBracket(item) | SquareBracket(item, _) | Parenthesis(item)) => part(item, types)?,
        DataType::Struct(fields, _) => {
            for field in fields {
                part(&mut field.field_type, types)?;
            }
        }
        DataType::Map(key, value) => {
            part(key, types)?;
            part(value, types)?;
        }
        _ => {}
    }
    Ok(())
}

fn part(data_type: &mut DataType, types: &Types) -> Result<()> {
    resolve(data_type, types)?;
    match data_type {
        DataType::Enum(..) => {
            Err(Error::unsupported("an ENUM in a list, struct or map is not available")
                .with_hint("write VARCHAR there"))
        }
        _ => Ok(()),
    }
}

/// The type of a name that stands in quotes, as some clients write all names: `"json"`.
fn in_quotes(name: &ObjectName) -> Option<DataType> {
    let [part] = name.0.as_slice() else { return None };
    let name = part.as_ident().filter(|name| name.quote_style.is_some())?;
    parsed(&name.value).ok().filter(|known| !matches!(known, DataType::Custom(..)))
}

/// The name, which may be in our own schema.
fn own_name(name: &ObjectName) -> Option<String> {
    let parts: Vec<String> = name.0.iter().map(|part| part.as_ident().map(folded)).collect::<Option<_>>()?;
    match parts.as_slice() {
        [name] => Some(name.clone()),
        [schema, name] if matches!(schema.as_str(), "main" | "public") => Some(name.clone()),
        _ => None,
    }
}

/// The labels of a type that a text names, if it is an ENUM.
pub(crate) fn labels_of(text: &str) -> Option<Vec<String>> {
    labels(&parsed(text).ok()?).ok()?
}

/// The labels of an ENUM.
///
/// # Errors
/// It has none, or one twice.
pub(crate) fn labels(data_type: &DataType) -> Result<Option<Vec<String>>> {
    let DataType::Enum(members, _) = data_type else { return Ok(None) };
    let mut labels: Vec<String> = vec![];
    for member in members {
        let (EnumMember::Name(label) | EnumMember::NamedValue(label, _)) = member;
        if labels.contains(label) {
            return Err(Error::invalid(format!("'{label}' is a label of the ENUM twice")));
        }
        labels.push(label.clone());
    }
    match labels.is_empty() {
        true => Err(Error::invalid("an ENUM has at least one label")),
        false => Ok(Some(labels)),
    }
}

/// Replaces the type of a column that is to be created; one of texts gets its CHECK.
///
/// # Errors
/// As [`expand`].
pub(crate) fn of_column(column: &mut ColumnDef, types: &Types) -> Result<()> {
    resolve(&mut column.data_type, types)?;
    let kind = match labels(&column.data_type)? {
        Some(labels) => TextType::Enum(labels),
        None if matches!(column.data_type, DataType::JSON | DataType::JSONB) => TextType::Json,
        None => return Ok(()),
    };
    column.data_type = DataType::Varchar(None);
    let check = CheckConstraint { name: None, expr: Box::new(kind.check(&folded(&column.name))), enforced: None };
    column.options.push(ColumnOptionDef { name: None, option: ColumnOption::Check(check) });
    Ok(())
}
