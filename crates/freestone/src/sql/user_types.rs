//! Types that CREATE TYPE has named, and ENUM and JSON, where a statement names them: in casts, which become calls of
//! functions, and in definitions of columns, which get a CHECK.

use datafusion::sql::sqlparser::ast::{
    self, CastKind, CheckConstraint, ColumnDef, ColumnOption, ColumnOptionDef, DataType, EnumMember, Expr, ObjectName,
    VisitMut,
};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::dialect::SqlDialect;
use super::fragments::{call, text};
use super::names::folded;
use super::spellings;
use super::text_types::{
    CAST, CAST_NORMAL, CAST_NORMAL_OR_NULL, CAST_OR_NULL, ROUNDED_INTERVAL, ROUNDED_TIME, TEXT, TextType, called,
};
use super::visitor;
use crate::error::{Error, Result};
use crate::normal_texts::{BITS_MAX, NormalText};

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
    let rounding = rounding(data_type);
    let (kind, dimensions) = text_type(data_type)?;
    if let (Some((function, digits)), Expr::Cast { expr: inner, .. }) = (rounding, &mut *expr) {
        let value = std::mem::replace(inner.as_mut(), Expr::value(ast::Value::Null));
        let digits = Expr::value(ast::Value::Number(digits.to_string(), false));
        *expr = call(function, vec![of_all_digits(value, function), digits]);
        return Ok(());
    }
    let of = |value: Expr| match &kind {
        Some(TextType::Enum(labels)) => called(if or_null { CAST_OR_NULL } else { CAST }, value, labels),
        Some(TextType::Normal(kind)) => {
            call(if or_null { CAST_NORMAL_OR_NULL } else { CAST_NORMAL }, vec![value, text(&kind.name())])
        }
        Some(TextType::Json) | None => value,
    };
    if !matches!(kind, Some(TextType::Enum(_) | TextType::Normal(_))) {
        return Ok(());
    }
    let value = match expr {
        Expr::Cast { expr: inner, .. } => std::mem::replace(inner.as_mut(), Expr::value(ast::Value::Null)),
        Expr::TypedString(typed) => Expr::Value(typed.value.clone()),
        _ => return Ok(()),
    };
    let value = match dimensions {
        0 => value,
        _ => Expr::Cast {
            kind: if or_null { CastKind::TryCast } else { CastKind::Cast },
            expr: Box::new(value),
            data_type: texts(dimensions),
            array: false,
            format: None,
        },
    };
    *expr = of(value);
    Ok(())
}

/// The function that rounds to the digits of `TIME(digits)` and `INTERVAL(digits)`.
fn rounding(data_type: &DataType) -> Option<(&'static str, u64)> {
    use ast::TimezoneInfo::{None as Unzoned, WithoutTimeZone};
    match data_type {
        DataType::Time(Some(digits), Unzoned | WithoutTimeZone) => Some((ROUNDED_TIME, *digits)),
        DataType::Interval { fields: None, precision: Some(digits) } => Some((ROUNDED_INTERVAL, *digits)),
        _ => None,
    }
}

/// A cast to TIME or INTERVAL, whose value a function rounds.
fn of_all_digits(value: Expr, function: &str) -> Expr {
    let data_type = match function {
        ROUNDED_TIME => DataType::Time(None, ast::TimezoneInfo::None),
        _ => DataType::Interval { fields: None, precision: None },
    };
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(value), data_type, array: false, format: None }
}

/// A type of texts, and the number of lists around it.
///
/// # Errors
/// An ENUM has no labels or one twice, or a type has a size that it cannot have.
fn text_type(data_type: &DataType) -> Result<(Option<TextType>, usize)> {
    use ast::ArrayElemTypeDef::{AngleBracket, SquareBracket};
    Ok(match data_type {
        DataType::Array(AngleBracket(item) | SquareBracket(item, None)) => {
            let (kind, dimensions) = text_type(item)?;
            (kind, dimensions + 1)
        }
        DataType::JSON | DataType::JSONB => (Some(TextType::Json), 0),
        other => match labels(other)? {
            Some(labels) => (Some(TextType::Enum(labels)), 0),
            None => (normal_text(other)?.map(TextType::Normal), 0),
        },
    })
}

/// VARCHAR within this number of lists.
fn texts(dimensions: usize) -> DataType {
    (0..dimensions).fold(DataType::Varchar(None), |item, _| {
        DataType::Array(ast::ArrayElemTypeDef::SquareBracket(Box::new(item), None))
    })
}

/// The type of texts in a normal form that a name stands for.
///
/// # Errors
/// It has a size that it cannot have.
fn normal_text(data_type: &DataType) -> Result<Option<NormalText>> {
    let sized = |size: u64| match u32::try_from(size) {
        Ok(size @ 1..=BITS_MAX) => Ok(size),
        _ => Err(Error::invalid(format!("{data_type}: the number of bits is from 1 to {BITS_MAX}"))),
    };
    Ok(Some(match data_type {
        DataType::Time(digits, ast::TimezoneInfo::WithTimeZone | ast::TimezoneInfo::Tz) => {
            // PostgreSQL, too, takes more digits for six.
            NormalText::TimeTz(digits.map_or(6, |digits| digits.min(6) as u8))
        }
        // Without a number there can be any, as in DuckDB; in PostgreSQL it is one.
        DataType::Bit(Some(size)) => NormalText::Bit(sized(*size)?),
        DataType::Bit(None) => NormalText::VarBit(None),
        DataType::BitVarying(size) | DataType::VarBit(size) => NormalText::VarBit(size.map(sized).transpose()?),
        DataType::Custom(name, modifiers) if modifiers.is_empty() => match own_name(name).as_deref() {
            Some("inet") => NormalText::Inet,
            Some("cidr") => NormalText::Cidr,
            _ => return Ok(None),
        },
        _ => return Ok(None),
    }))
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
        DataType::Array(AngleBracket(item) | SquareBracket(item, None)) => resolve(item, types)?,
        DataType::Array(SquareBracket(item, Some(_)) | Parenthesis(item)) => part(item, types)?,
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
    let refused = |what: &str| {
        Error::unsupported(format!("{what} in a struct or map is not available")).with_hint("write VARCHAR there")
    };
    match text_type(data_type)?.0 {
        Some(TextType::Enum(_)) => Err(refused("an ENUM")),
        Some(TextType::Normal(kind)) => Err(refused(&kind.name())),
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
    if let Some((_, digits)) = rounding(&column.data_type) {
        let message = format!("column {}: {} is not available", column.name, column.data_type);
        return match (&mut column.data_type, digits) {
            (DataType::Time(precision, _) | DataType::Interval { precision, .. }, 6..) => {
                *precision = None;
                Ok(())
            }
            _ => {
                Err(Error::unsupported(message)
                    .with_hint("leave the digits out, and round in queries: CAST(a AS TIME(0))"))
            }
        };
    }
    let (kind, dimensions) = text_type(&column.data_type)?;
    let Some(kind) = kind.filter(|kind| dimensions == 0 || *kind != TextType::Json) else { return Ok(()) };
    column.data_type = texts(dimensions);
    let check = CheckConstraint { name: None, expr: Box::new(kind.check(&folded(&column.name))), enforced: None };
    column.options.push(ColumnOptionDef { name: None, option: ColumnOption::Check(check) });
    Ok(())
}
