//! Casts, and texts that are written with their type.

use arrow_schema::{DataType, Field, Fields, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::{Cast, Expr, ExprSchemable, TryCast};
use freestone_sql::Span;
use freestone_sql::tree::{self, CastForm, ExprKind, Literal, Text, Type, TypeField, TypeKind};

use crate::binder::Binder;
use crate::error::{At, Result, invalid};
use crate::expressions::{integer, text};
use crate::types::{JSONB, NORMAL, SqlType, is_text, list_of};

impl Binder<'_> {
    /// `CAST(a AS T)`, `TRY_CAST(a AS T)` and `a::T`.
    pub fn cast(&mut self, operand: &tree::Expr, data_type: &Type, form: CastForm, span: Span) -> Result<Expr> {
        let to = self.sql_type(data_type)?;
        let or_null = form == CastForm::TryCast;
        if let (ExprKind::Row(values), TypeKind::Struct(fields)) = (&operand.kind, &data_type.kind)
            && values.len() == fields.len()
        {
            return self.row_as_struct(values, fields, form, span);
        }
        if let (ExprKind::Literal(Literal::Text(text)), SqlType::Plain(to), false) = (&operand.kind, &to, or_null)
            && !has_digits(data_type, to)
            && let Some(value) = self.world.functions.typed_text(text, to)
        {
            return Ok(value);
        }
        let value = self.expression(operand)?;
        let given = if self.has_collations { vec![value.clone()] } else { vec![] };
        let value = self.cast_to(value, to, or_null, span)?;
        self.of_collated(value, &given, span)
    }

    /// `ROW(1, 'x')::STRUCT(a INT, b VARCHAR)`: each value as one of the field's type.
    fn row_as_struct(
        &mut self,
        values: &[tree::Expr],
        fields: &[TypeField],
        form: CastForm,
        span: Span,
    ) -> Result<Expr> {
        let mut arguments = vec![];
        for (value, field) in values.iter().zip(fields) {
            arguments.push(text(&field.name.text));
            arguments.push(self.cast(value, &field.data_type, form, value.span)?);
        }
        self.scalar_call("named_struct", arguments, span)
    }

    /// `DATE '2024-01-01'`.
    pub fn typed_text(&mut self, data_type: &Type, written: &Text, span: Span) -> Result<Expr> {
        let to = self.sql_type(data_type)?;
        if let SqlType::Plain(to) = &to
            && !has_digits(data_type, to)
            && let Some(value) = self.world.functions.typed_text(&written.value, to)
        {
            return Ok(value);
        }
        self.cast_to(text(&written.value), to, false, span)
    }

    /// A text, or a list of texts, as labels or in a normal form.
    fn as_texts(&mut self, value: Expr, to: &SqlType, or_null: bool, span: Span) -> Result<Expr> {
        let (function, others) = match to {
            SqlType::Enum(labels) => {
                let function = if or_null { "freestone_as_enum_or_null" } else { "freestone_as_enum" };
                (function, labels.iter().map(|label| text(label)).collect())
            }
            SqlType::Normal(name) => {
                let function = if or_null { "freestone_as_normal_or_null" } else { "freestone_as_normal" };
                (function, vec![text(name)])
            }
            _ => return Ok(value),
        };
        self.scalar_call(function, std::iter::once(value).chain(others).collect(), span)
    }

    /// A value as a label or in a normal form. What is no text becomes JSONB by way of JSON.
    fn as_text(&mut self, value: Expr, to: &SqlType, or_null: bool, span: Span) -> Result<Expr> {
        let is_json = |given: DataType| !is_text(&given) && !given.is_null();
        let by_json =
            matches!(to, SqlType::Normal(name) if name == JSONB) && is_json(value.get_type(&self.schema()).at(span)?);
        let value = if by_json { self.cast_to(value, SqlType::Json, or_null, span)? } else { value };
        self.as_texts(value, to, or_null, span)
    }

    /// Whether a value is a text in the normal form of a type.
    fn is_normal(&self, value: &Expr) -> bool {
        value.to_field(&self.schema()).is_ok_and(|(_, field)| field.metadata().contains_key(NORMAL))
    }

    /// A struct as a map: the names of its fields are the keys.
    fn struct_as_map(
        &mut self,
        value: Expr,
        fields: &Fields,
        entries: &Field,
        or_null: bool,
        span: Span,
    ) -> Result<Expr> {
        let DataType::Struct(pair) = entries.data_type() else {
            return Err(invalid(span, "a map has keys and values"));
        };
        let [key, item] = pair.as_ref() else { return Err(invalid(span, "a map has keys and values")) };
        if fields.is_empty() || is_unnamed(fields) {
            return Err(invalid(span, "a struct without names cannot be cast to MAP")
                .with_hint("write map([key, …], [value, …])"));
        }
        let same: Vec<Field> =
            fields.iter().map(|field| Field::new(field.name(), item.data_type().clone(), true)).collect();
        let values = self.cast_to(value, SqlType::Plain(DataType::Struct(same.into())), or_null, span)?;
        let names = fields.iter().map(|field| text(field.name())).collect();
        let names = self.scalar_call("make_array", names, span)?;
        let keys = DataType::List(Field::new("item", key.data_type().clone(), true).into());
        let keys = self.cast_to(names, SqlType::Plain(keys), or_null, span)?;
        self.scalar_call("freestone_struct_map", vec![values, keys], span)
    }

    /// A list, struct or map whose parts are cast.
    fn cast_by_parts(
        &mut self,
        value: Expr,
        from: &DataType,
        to: &DataType,
        or_null: bool,
        span: Span,
    ) -> Result<Expr> {
        let parts = match (from, to) {
            (DataType::List(from), DataType::List(to)) => {
                let to = SqlType::Plain(to.data_type().clone());
                // A list of unlike values gets its type only later.
                let value = Expr::Cast(Cast::new(Box::new(value), DataType::List(from.clone())));
                self.each_item(value, from, span, |binder, item| binder.cast_to(item, to, or_null, span))?
            }
            (DataType::Struct(_), DataType::Struct(fields)) => {
                let mut parts = vec![];
                for field in fields {
                    let part = self.get_field(value.clone(), field.name(), span)?;
                    let to = SqlType::Plain(field.data_type().clone());
                    parts.extend([text(field.name()), self.cast_to(part, to, or_null, span)?]);
                }
                let cast = self.scalar_call("named_struct", parts, span)?;
                null_of(value, to, cast).at(span)?
            }
            (DataType::Map(..), DataType::Map(entries, _)) => {
                let DataType::Struct(entries) = entries.data_type() else { return Err(invalid(span, "no map")) };
                let mut lists = vec![];
                for (function, entry) in ["map_keys", "map_values"].into_iter().zip(entries) {
                    let part = self.scalar_call(function, vec![value.clone()], span)?;
                    lists.push(self.cast_to(
                        part,
                        SqlType::Plain(list_of(entry.data_type().clone())),
                        or_null,
                        span,
                    )?);
                }
                let cast = self.scalar_call("map", lists, span)?;
                null_of(value, to, cast).at(span)?
            }
            _ => value,
        };
        // The parts have their types; only the names of fields may be others.
        Ok(Expr::Cast(Cast::new(Box::new(parts), to.clone())))
    }

    /// A value as one of another type; NULL instead of an error with `or_null`.
    pub fn cast_to(&mut self, value: Expr, to: SqlType, or_null: bool, span: Span) -> Result<Expr> {
        let to = match to {
            SqlType::Blob => {
                let functions = self.world.functions;
                if let Some(bytes) = functions.of_bits(&value, &DataType::BinaryView, or_null, &self.schema()) {
                    return Ok(bytes);
                }
                let function = if or_null { "freestone_blob_or_null" } else { "freestone_blob" };
                return self.scalar_call(function, vec![value], span);
            }
            SqlType::Json => {
                let function = if or_null { "freestone_json_or_null" } else { "freestone_json" };
                return self.scalar_call(function, vec![value], span);
            }
            SqlType::Enum(_) | SqlType::Normal(_) => return self.as_text(value, &to, or_null, span),
            SqlType::Texts(item, around) => {
                let texts = SqlType::Texts(Box::new(SqlType::Plain(DataType::Utf8View)), around).data_type();
                let value = self.cast_to(value, SqlType::Plain(texts), or_null, span)?;
                return self.as_texts(value, &item, or_null, span);
            }
            SqlType::Rounded(to, digits) => {
                let function = match to {
                    DataType::Interval(_) => "freestone_rounded_interval",
                    _ => "freestone_rounded_time",
                };
                let value = self.cast_to(value, SqlType::Plain(to), or_null, span)?;
                return self.scalar_call(function, vec![value, integer(digits.into())], span);
            }
            SqlType::Plain(to) => to,
        };
        if let Some(number) = self.world.functions.of_bits(&value, &to, or_null, &self.schema()) {
            return Ok(number);
        }
        if let DataType::Map(entries, _) = &to
            && let DataType::Struct(fields) = value.get_type(&self.schema()).at(span)?
        {
            return self.struct_as_map(value, &fields, entries, or_null, span);
        }
        if let Ok(from) = value.get_type(&self.schema())
            && needs_parts(&from, &to)
        {
            return self.cast_by_parts(value, &from, &to, or_null, span);
        }
        // A cast alone keeps what the field says.
        let value = match is_text(&to) && (self.world.settings.has_enums() || self.is_normal(&value)) {
            true => self.scalar_call("freestone_enum_text", vec![value], span)?,
            false => value,
        };
        let value = match &to {
            // Views of bytes have no cast of their own.
            DataType::FixedSizeBinary(_) if value.get_type(&self.schema()).at(span)? == DataType::BinaryView => {
                Expr::Cast(Cast::new(Box::new(value), DataType::Binary))
            }
            _ => value,
        };
        if or_null {
            return Ok(Expr::TryCast(TryCast::new(Box::new(value), to)));
        }
        let value = match &to {
            // Integers are seconds.
            DataType::Timestamp(TimeUnit::Nanosecond, zone)
                if value.get_type(&self.schema()).at(span)? == DataType::Int64 =>
            {
                Expr::Cast(Cast::new(Box::new(value), DataType::Timestamp(TimeUnit::Second, zone.clone())))
            }
            _ => value,
        };
        Ok(Expr::Cast(Cast::new(Box::new(value), to)))
    }
}

/// NULL of a type where a value is NULL, and otherwise another value.
fn null_of(value: Expr, to: &DataType, otherwise: Expr) -> datafusion_common::Result<Expr> {
    let null = Expr::Literal(ScalarValue::try_new_null(to)?, None);
    datafusion_expr::when(Expr::IsNull(Box::new(value)), null).otherwise(otherwise)
}

/// Whether values of a nested type are cast part by part, because Arrow casts parts of these types by other rules than those of
/// SQL: it cuts off fractions, knows no time zone of the session, and writes other texts.
fn needs_parts(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (from, to) if from == to || from.is_null() => false,
        (DataType::List(from), DataType::List(to)) => needs_part(from.data_type(), to.data_type()),
        (DataType::Struct(from), DataType::Struct(to)) => {
            let is_same = from.len() == to.len() && from.iter().zip(to).all(|(from, to)| from.name() == to.name());
            is_same && from.iter().zip(to).any(|(from, to)| needs_part(from.data_type(), to.data_type()))
        }
        (DataType::Map(from, _), DataType::Map(to, _)) => needs_parts(from.data_type(), to.data_type()),
        _ => false,
    }
}

/// The same for a part, which may be no nested value.
fn needs_part(from: &DataType, to: &DataType) -> bool {
    let is_time = |kind: &DataType| kind.is_temporal() || matches!(kind, DataType::Interval(_));
    let is_fraction = |kind: &DataType| kind.is_floating() || kind.is_decimal();
    if from.is_nested() || to.is_nested() {
        return needs_parts(from, to);
    }
    let is_rounded = is_fraction(from) && (to.is_integer() || to.is_decimal());
    from != to && !from.is_null() && (is_time(from) || is_time(to) || is_rounded || from.is_floating() && is_text(to))
}

/// Whether a type says how many digits a timestamp has. Then a text with more of them is rounded.
fn has_digits(written: &Type, to: &DataType) -> bool {
    let digits = matches!(&written.kind, TypeKind::Named { modifiers, .. } if !modifiers.is_empty());
    digits && matches!(to, DataType::Timestamp(..))
}

/// Whether a struct is a row without names.
fn is_unnamed(fields: &Fields) -> bool {
    fields.iter().enumerate().all(|(at, field)| *field.name() == format!("c{at}"))
}
