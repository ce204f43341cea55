//! Calls with keywords between their arguments, and functions whose arguments are not plain values.

use arrow_schema::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::expr::Unnest;
use datafusion_expr::{Cast, Expr, ExprSchemable, GetFieldAccess};
use freestone_sql::Span;
use freestone_sql::tree::{self, Argument, ExprKind, Literal, SpecialCall, TrimSide};

use crate::binder::Binder;
use crate::calls::Plain;
use crate::chains::conjunction;
use crate::error::{At, Result, invalid, unsupported};
use crate::expressions::{integer, text};
use crate::lambdas::tree_call;
use crate::types::{SqlType, is_text, list_of};
use crate::world::JSON;

/// The arguments of `make_interval`.
const UNITS: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];

impl Binder<'_> {
    /// `extract(part FROM value)` and others.
    pub fn special(&mut self, call: &SpecialCall, span: Span) -> Result<Expr> {
        let (name, written): (&str, Vec<&tree::Expr>) = match call {
            SpecialCall::Extract { part, value } => {
                let arguments = vec![text(part), self.expression(value)?];
                return self.scalar_call("date_part", arguments, span);
            }
            SpecialCall::Position { needle, value } => {
                let mut arguments = [self.expression(value)?, self.expression(needle)?];
                self.collate_operands(&mut arguments, span)?;
                return self.scalar_call("strpos", arguments.into(), span);
            }
            SpecialCall::Substring { value, start, length } => {
                let value = self.expression(value)?;
                let start = start.as_ref().map_or(Ok(integer(1)), |start| self.expression(start))?;
                let mut arguments = vec![value, start];
                if let Some(length) = length {
                    arguments.push(self.expression(length)?);
                }
                return self.part_of_text(arguments, span);
            }
            SpecialCall::Trim { side, characters, value } => {
                let name = match side {
                    TrimSide::Both => "btrim",
                    TrimSide::Leading => "ltrim",
                    TrimSide::Trailing => "rtrim",
                };
                (name, std::iter::once(value).chain(characters).collect())
            }
            SpecialCall::Overlay { value, other, start, length } => {
                ("overlay", [value, other, start].into_iter().chain(length).collect())
            }
        };
        let arguments = written.into_iter().map(|one| self.expression(one)).collect::<Result<Vec<_>>>()?;
        self.scalar_call(name, arguments, span)
    }

    /// A call of a function whose arguments are not plain values; `None` for other functions.
    pub fn special_function(&mut self, plain: &Plain) -> Result<Option<Expr>> {
        if plain.quoted {
            return Ok(None);
        }
        if let Some(quantiles) = self.quantiles(plain)? {
            return Ok(Some(quantiles));
        }
        if plain.call.over.is_some() {
            return Ok(None);
        }
        let fields = self.fields_by_names(plain)?;
        if let Some(value) = fields.map_or_else(|| self.zipped(plain), |fields| Ok(Some(fields)))? {
            return Ok(Some(value));
        }
        let span = plain.span;
        let value = match (plain.name.as_str(), plain.arguments.as_slice()) {
            ("alias", [only]) => text(&crate::headings::last_name(&only.value)),
            ("unnest", arguments) => self.unnest(arguments, span)?,
            ("struct_pack", arguments) => {
                let fields = self.named_fields(arguments)?;
                self.scalar_call("named_struct", fields, span)?
            }
            (name @ ("struct_insert" | "struct_update"), [first, fields @ ..]) => {
                let mut arguments = vec![self.expression(&first.value)?];
                arguments.extend(self.named_fields(fields)?);
                self.scalar_call(name, arguments, span)?
            }
            ("regexp_like" | "regexp_match", [_, _, flags]) => {
                let function = plain.name.as_str();
                return self.with_flags(function, plain, &flags.value).map(Some);
            }
            ("struct_extract", [value, place]) => match &place.value.kind {
                ExprKind::Literal(Literal::Number(_)) => {
                    let arguments = vec![self.expression(&value.value)?, self.expression(&place.value)?];
                    self.scalar_call("struct_extract_at", arguments, span)?
                }
                ExprKind::Literal(Literal::Text(name)) => {
                    let value = self.expression(&value.value)?;
                    self.field_named(value, name, place.value.span)?
                }
                _ => return Ok(None),
            },
            ("make_interval", units) if units.iter().any(|unit| unit.name.is_some()) => {
                self.interval_of_units(units, span)?
            }
            ("nextval" | "currval" | "setval", [sequence, ..]) => return self.sequence_call(plain, &sequence.value),
            ("age", [only]) => {
                let today = self.scalar_call("current_date", vec![], span)?;
                let arguments = vec![today, self.expression(&only.value)?];
                self.scalar_call("age", arguments, span)?
            }
            ("bitstring", [bits, length]) => {
                let arguments = vec![self.expression(&bits.value)?, self.expression(&length.value)?];
                let bits = self.scalar_call("bitstring", arguments, span)?;
                self.cast_to(bits, SqlType::Normal("VARBIT".to_owned()), false, span)?
            }
            ("invoke", arguments) => self.invoked(arguments, span)?,
            ("grouping_id" | "grouping", arguments) => self.grouping(arguments, span)?,
            ("json_transform" | "from_json", arguments) => self.json_as(arguments, false, span)?,
            ("json_transform_strict" | "from_json_strict", arguments) => self.json_as(arguments, true, span)?,
            ("map" | "make_map", arguments) if plain.call.receiver.is_none() => {
                return self.map_of_pairs(&plain.name, arguments, span);
            }
            _ => return Ok(None),
        };
        Ok(Some(value))
    }

    /// `substring(text, start, length)`. Of a negative length it is the part before the start. With a pattern in place of the
    /// numbers, it is the part that matches.
    pub fn part_of_text(&mut self, arguments: Vec<Expr>, span: Span) -> Result<Expr> {
        if self.have_pattern(&arguments) {
            return self.scalar_call("freestone_part_of_match", arguments, span);
        }
        let is_forward = match arguments.get(2) {
            Some(Expr::Literal(ScalarValue::Int64(length), _)) => length.is_none_or(|length| length >= 0),
            Some(Expr::Literal(..) | Expr::Placeholder(_)) | None => true,
            Some(_) => false,
        };
        self.scalar_call(if is_forward { "substr" } else { "freestone_substring" }, arguments, span)
    }

    /// Whether the arguments of `substring` are a text, a pattern and an escape character. Integers in quotes are integers, as in
    /// DuckDB.
    fn have_pattern(&self, arguments: &[Expr]) -> bool {
        let schema = self.schema();
        let has = |value: &Expr, is: fn(&DataType) -> bool| {
            !matches!(value, Expr::Placeholder(_)) && value.get_type(&schema).is_ok_and(|kind| is(&kind))
        };
        let is_number = |value: &Expr| match value {
            Expr::Literal(ScalarValue::Utf8(Some(text)), _) => text.trim().parse::<i64>().is_ok(),
            _ => false,
        };
        match arguments {
            [value, pattern] => has(value, is_text) && has(pattern, is_text) && !is_number(pattern),
            [value, pattern, escape] => {
                let is_escape = has(escape, is_text) || has(escape, DataType::is_null);
                let are_numbers = is_number(pattern) && is_number(escape);
                has(value, is_text) && has(pattern, is_text) && is_escape && !are_numbers
            }
            _ => false,
        }
    }

    /// `list_resize(list, n)`: without a number, no item remains. NULL for NULL.
    pub fn resized(&mut self, mut arguments: Vec<Expr>, span: Span) -> Result<Expr> {
        let schema = self.schema();
        // A parameter may get a type later.
        let is_null = |list: &Expr| list.get_type(&schema).is_ok_and(|kind| kind.is_null());
        let list_is_null = arguments.first().is_some_and(|list| !matches!(list, Expr::Placeholder(_)) && is_null(list));
        if list_is_null && (2..=3).contains(&arguments.len()) {
            return Ok(Expr::Literal(ScalarValue::Null, None));
        }
        if let Some(count) = arguments.get_mut(1)
            && !matches!(count, Expr::Literal(ScalarValue::Int64(Some(_)), _) | Expr::Placeholder(_))
        {
            let given = std::mem::take(count);
            *count = self.scalar_call("coalesce", vec![given, integer(0)], span)?;
        }
        self.scalar_call("array_resize", arguments, span)
    }

    /// `list_zip(a, b, true)`: the lists end with the shortest. With `false` the shorter ones are filled with NULL. `None` for other calls.
    fn zipped(&mut self, plain: &Plain) -> Result<Option<Expr>> {
        let ("list_zip" | "array_zip" | "arrays_zip", [lists @ .., last]) =
            (plain.name.as_str(), plain.arguments.as_slice())
        else {
            return Ok(None);
        };
        let ExprKind::Literal(Literal::Boolean(is_cut)) = last.value.kind else { return Ok(None) };
        let span = plain.span;
        let mut lists = lists.iter().map(|list| self.expression(&list.value)).collect::<Result<Vec<_>>>()?;
        if is_cut {
            let mut lengths = vec![];
            for list in &lists {
                let length = self.scalar_call("array_length", vec![list.clone()], span)?;
                let length = Expr::Cast(Cast::new(Box::new(length), DataType::Int64));
                lengths.push(self.scalar_call("coalesce", vec![length, integer(0)], span)?);
            }
            let shortest = self.scalar_call("least", lengths, span)?;
            let functions = self.world.functions;
            let schema = self.schema();
            let first = |list: Expr| {
                let (start, stop) = (Box::new(integer(1)), Box::new(shortest.clone()));
                let access = GetFieldAccess::ListRange { start, stop, stride: Box::new(integer(1)) };
                functions.access(list, access, &schema).at(span)
            };
            lists = lists.into_iter().map(first).collect::<Result<_>>()?;
        }
        self.scalar_call("arrays_zip", lists, span).map(Some)
    }

    /// `date_part(['year', 'month'], time)` and `regexp_extract(text, pattern, ['a', 'b'])`: structs with the fields of a list.
    /// `None` for other calls.
    fn fields_by_names(&mut self, plain: &Plain) -> Result<Option<Expr>> {
        let span = plain.span;
        let fields = match (plain.name.as_str(), plain.arguments.as_slice()) {
            ("date_part" | "datepart", [parts, time]) => {
                let ExprKind::List(parts) = &parts.value.kind else { return Ok(None) };
                self.parts_of_time(parts, &time.value, span)?
            }
            ("regexp_extract", [subject, pattern, names, options @ ..]) if options.len() < 2 => {
                let ExprKind::List(names) = &names.value.kind else { return Ok(None) };
                self.groups_of_match([&subject.value, &pattern.value], names, options.first(), span)?
            }
            ("regexp_extract_all", [subject, pattern, names, options @ ..]) if options.len() < 2 => {
                let ExprKind::List(names) = &names.value.kind else { return Ok(None) };
                let mut arguments = vec![self.expression(&subject.value)?, self.expression(&pattern.value)?];
                arguments.push(match options.first() {
                    Some(options) => self.expression(&options.value)?,
                    None => text(""),
                });
                arguments.extend(self.expressions(names)?);
                self.scalar_call("freestone_regexp_groups", arguments, span)?
            }
            _ => return Ok(None),
        };
        Ok(Some(fields))
    }

    /// `approx_quantile(a, [0.1, 0.9])`: a list of the quantiles. `None` for other calls.
    fn quantiles(&mut self, plain: &Plain) -> Result<Option<Expr>> {
        let ("approx_quantile", [value, parts]) = (plain.name.as_str(), plain.arguments.as_slice()) else {
            return Ok(None);
        };
        let ExprKind::List(parts) = &parts.value.kind else { return Ok(None) };
        let name = tree::ObjectName {
            parts: plain.call.name.parts.last().cloned().into_iter().collect(),
            span: plain.call.name.span,
        };
        let mut quantiles = vec![];
        for part in parts {
            let arguments = vec![value.clone(), Argument { name: None, value: part.clone() }];
            let one = tree::Call { name: name.clone(), receiver: None, arguments, ..plain.call.clone() };
            quantiles.push(self.call(&one, plain.span)?);
        }
        self.list_of_values(quantiles, plain.span).map(Some)
    }

    /// `make_interval(days => 3)`: a call with all units in their order.
    fn interval_of_units(&mut self, arguments: &[Argument], span: Span) -> Result<Expr> {
        let mut units: Vec<Option<Expr>> = vec![None; UNITS.len()];
        for (at, argument) in arguments.iter().enumerate() {
            let place = match &argument.name {
                Some(name) => UNITS.iter().position(|unit| name.text == *unit),
                None => Some(at),
            };
            let value = self.expression(&argument.value)?;
            let Some(unit) = place.and_then(|place| units.get_mut(place)).filter(|unit| unit.is_none()) else {
                return Err(invalid(
                    argument.value.span,
                    "this is no unit of make_interval, or one that it has already",
                )
                .with_hint(format!("the units are {}", UNITS.join(", "))));
            };
            *unit = Some(value);
        }
        let units = units.into_iter().map(|unit| unit.unwrap_or_else(|| integer(0))).collect();
        self.scalar_call("make_interval", units, span)
    }

    /// `json_transform(json, structure)`: JSON as a value of the structure's type.
    fn json_as(&mut self, arguments: &[Argument], is_strict: bool, span: Span) -> Result<Expr> {
        let structure = match arguments {
            [_, structure] => match &structure.value.kind {
                ExprKind::Literal(Literal::Text(text)) => Some(text),
                ExprKind::Cast { operand, .. } => match &operand.kind {
                    ExprKind::Literal(Literal::Text(text)) => Some(text),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        };
        let (Some(structure), [json, _]) = (structure, arguments) else {
            return Err(invalid(span, "json_transform takes JSON and a constant structure").with_hint(
                "write the types of the values as JSON: json_transform(j, '{\"a\": \"INTEGER\", \"b\": [\"VARCHAR\"]}')",
            ));
        };
        let Some(written) = self.world.functions.json_conversion(structure, is_strict).at(span)? else {
            return Err(unsupported(span, "json_transform"));
        };
        let parsed = freestone_sql::parse_expression(&written);
        let conversion = parsed.map_err(|error| invalid(span, format!("the structure of JSON: {error}")))?;
        let json = self.expression(&tree_call("json", vec![json.value.clone()], span))?;
        let json = vec![(JSON.to_owned(), json)];
        self.with_arguments(json, span, |binder| binder.expression(&conversion))
    }

    /// `nextval('s')` of a temporary sequence; `None` for other sequences.
    fn sequence_call(&mut self, plain: &Plain, sequence: &tree::Expr) -> Result<Option<Expr>> {
        let written = match &sequence.kind {
            ExprKind::Cast { operand, .. } => operand,
            _ => sequence,
        };
        let ExprKind::Literal(Literal::Text(name)) = &written.kind else { return Ok(None) };
        let Some(name) = self.world.functions.sequence(name).at(sequence.span)? else { return Ok(None) };
        let mut arguments = vec![text(&name)];
        for argument in plain.arguments.iter().skip(1) {
            arguments.push(self.expression(&argument.value)?);
        }
        self.scalar_call(&plain.name, arguments, plain.span).map(Some)
    }

    /// `unnest(list)`: a row per item.
    fn unnest(&mut self, arguments: &[Argument], span: Span) -> Result<Expr> {
        let only = match arguments {
            [only] => only,
            [] => return Err(invalid(span, "unnest takes a list")),
            _ => {
                return Err(invalid(span, "unnest with options makes several columns")
                    .with_hint("write it alone among the items of SELECT, or in FROM"));
            }
        };
        let (mut value, schema) = (self.expression(&only.value)?, self.schema());
        match value.get_type(&schema).at(span)? {
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {}
            DataType::Struct(_) => {
                return Err(invalid(span, "unnest of a struct makes several columns")
                    .with_hint("write it alone among the items of SELECT"));
            }
            DataType::Null => value = Expr::Cast(Cast::new(Box::new(value), list_of(DataType::Int32))),
            other => {
                return Err(invalid(only.value.span, format!("unnest takes a list, and was given {other}"))
                    .with_hint("write a list as [1, 2] or ARRAY[1, 2]"));
            }
        }
        Ok(Expr::Unnest(Unnest { expr: Box::new(value), outer: false }))
    }

    /// `a := 1, t.b` as `'a', 1, 'b', t.b`.
    fn named_fields(&mut self, arguments: &[Argument]) -> Result<Vec<Expr>> {
        let mut fields = vec![];
        for Argument { name, value } in arguments {
            let name = match name {
                Some(name) => name.text.clone(),
                None if matches!(value.kind, ExprKind::Column(_)) => crate::headings::last_name(value),
                None => return Err(invalid(value.span, "a field has a name").with_hint("write name := value")),
            };
            fields.push(text(&name));
            fields.push(self.expression(value)?);
        }
        Ok(fields)
    }

    /// `date_part(['year', 'month'], time)`: a struct with a field per part.
    fn parts_of_time(&mut self, parts: &[tree::Expr], time: &tree::Expr, span: Span) -> Result<Expr> {
        let mut fields = vec![];
        for part in parts {
            let (name, time) = (self.expression(part)?, self.expression(time)?);
            fields.push(name.clone());
            fields.push(self.scalar_call("date_part", vec![name, time], span)?);
        }
        self.scalar_call("named_struct", fields, span)
    }

    /// `regexp_extract(text, pattern, ['a', 'b'])`: a struct with a field per group.
    fn groups_of_match(
        &mut self,
        [subject, pattern]: [&tree::Expr; 2],
        names: &[tree::Expr],
        options: Option<&Argument>,
        span: Span,
    ) -> Result<Expr> {
        let mut fields = vec![];
        for (at, name) in (1i64..).zip(names) {
            fields.push(self.expression(name)?);
            let mut arguments = vec![self.expression(subject)?, self.expression(pattern)?, integer(at)];
            if let Some(options) = options {
                arguments.push(self.expression(&options.value)?);
            }
            fields.push(self.scalar_call("regexp_extract", arguments, span)?);
        }
        self.scalar_call("named_struct", fields, span)
    }

    /// Flags of a regular expression that are not empty: DataFusion does not take empty ones. `u` is the default.
    fn with_flags(&mut self, function: &str, plain: &Plain, flags: &tree::Expr) -> Result<Expr> {
        let mut arguments = vec![];
        for argument in plain.arguments.iter().take(2) {
            arguments.push(self.expression(&argument.value)?);
        }
        let flags = match &flags.kind {
            ExprKind::Literal(Literal::Text(known)) if known.is_empty() => text("u"),
            ExprKind::Literal(Literal::Text(known)) => text(known),
            _ => {
                let value = self.expression(flags)?;
                let empty = value.clone().eq(text(""));
                datafusion_expr::when(empty, text("u")).otherwise(value).at(plain.span)?
            }
        };
        arguments.push(flags);
        let function = self.world.functions.synonym(function).unwrap_or(function).to_owned();
        self.scalar_call(&function, arguments, plain.span)
    }

    /// `grouping(a, b)`.
    fn grouping(&mut self, arguments: &[Argument], span: Span) -> Result<Expr> {
        let Some(function) = self.world.functions.aggregate("grouping") else {
            return Err(self.no_function("grouping", span));
        };
        let values = arguments.iter().map(|argument| self.expression(&argument.value)).collect::<Result<Vec<_>>>()?;
        Ok(function.call(values))
    }

    /// `map(key, value, …)`; `None` for `map(keys, values)` of two lists.
    fn map_of_pairs(&mut self, name: &str, arguments: &[Argument], span: Span) -> Result<Option<Expr>> {
        let schema = self.schema();
        let values = arguments.iter().map(|argument| self.expression(&argument.value)).collect::<Result<Vec<_>>>()?;
        let is_list = |value: &Expr| value.get_type(&schema).is_ok_and(|kind| kind.is_list() || kind.is_null());
        if values.is_empty() && name != "map" {
            return Ok(None);
        }
        if name == "map" && values.len() == 2 && values.iter().all(is_list) {
            return self.map_of_lists(values, span).map(Some);
        }
        let (mut keys, mut items) = (vec![], vec![]);
        for pair in values.chunks(2) {
            match pair {
                [key, item] => {
                    keys.push(key.clone());
                    items.push(item.clone());
                }
                _ => return Err(invalid(span, "a map has a value for each key")),
            }
        }
        let arguments = vec![self.list_of_values(keys, span)?, self.list_of_values(items, span)?];
        self.scalar_call("map", arguments, span).map(Some)
    }

    /// `map(keys, values)`: NULL if one of the lists is.
    fn map_of_lists(&mut self, lists: Vec<Expr>, span: Span) -> Result<Expr> {
        let schema = self.schema();
        let is_null = |list: &Expr| list.get_type(&schema).is_ok_and(|kind| kind.is_null());
        if lists.iter().any(is_null) {
            return Ok(Expr::Literal(ScalarValue::Null, None));
        }
        let nullable = |list: &&Expr| list.nullable(&schema).unwrap_or(true) && !list.is_volatile();
        let known = lists.iter().filter(nullable).map(|list| Expr::IsNotNull(Box::new(list.clone())));
        let condition = conjunction(known);
        let map = self.scalar_call("map", lists, span)?;
        match condition {
            Some(condition) => datafusion_expr::when(condition, map).end().at(span),
            None => Ok(map),
        }
    }
}
