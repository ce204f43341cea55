//! Names in expressions: columns, aliases, parameters of lambdas and macros, and their fields.

use arrow_schema::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::{Expr, ExprSchemable, GetFieldAccess};
use freestone_sql::Span;
use freestone_sql::tree::{self, Name, ObjectName};

use crate::binder::Binder;
use crate::error::{At, BindError, ErrorKind, Result, invalid, unknown};
use crate::expressions::text;
use crate::scopes::Found;

impl Binder<'_> {
    /// The value of a name: of a local, a column of the own block, an alias, or a column of a block around.
    pub fn column(&mut self, name: &ObjectName) -> Result<Expr> {
        match self.resolved(name)? {
            Some(value) => Ok(value),
            None => Err(self.no_column(name)),
        }
    }

    /// The value of a name among the columns of FROM.
    pub fn column_of_from(&self, key: &tree::Expr) -> Option<Expr> {
        let tree::ExprKind::Column(name) = &key.kind else { return None };
        let parts: Vec<(&str, bool)> = name.parts.iter().map(|part| (part.text.as_str(), part.quoted)).collect();
        match self.scopes.last()?.find(&parts) {
            Found::Column(value, taken) if taken == parts.len() => Some(value),
            _ => None,
        }
    }

    /// The value of a name, if it has one.
    pub fn resolved(&mut self, name: &ObjectName) -> Result<Option<Expr>> {
        let parts: Vec<(&str, bool)> = name.parts.iter().map(|part| (part.text.as_str(), part.quoted)).collect();
        let Some(first) = parts.first() else { return Ok(None) };
        if let Some(value) = self.local(first.0, name.span)? {
            return self.fields(value, name.parts.get(1..).unwrap_or_default()).map(Some);
        }
        let own = self.scopes.len().saturating_sub(1);
        for depth in (0..self.scopes.len()).rev() {
            let Some(scope) = self.scopes.get(depth) else { continue };
            let (value, taken) = match scope.find(&parts) {
                Found::Column(value, taken) => (value, taken),
                Found::Several(names) => return Err(ambiguous(name, &names)),
                Found::NotIn(_) | Found::Nothing => {
                    if depth == own
                        && let Some((value, taken)) = self.alias_of(&parts, name.span)?
                    {
                        return self.fields(value, name.parts.get(taken..).unwrap_or_default()).map(Some);
                    }
                    match self.row_of_relation(depth, &parts, name.span)? {
                        Some(value) => (value, parts.len()),
                        None => continue,
                    }
                }
            };
            let Some(scope) = self.scopes.get(depth) else { continue };
            let value = if depth == own { value } else { scope.outer(value).at(name.span)? };
            return self.fields(value, name.parts.get(taken..).unwrap_or_default()).map(Some);
        }
        Ok(None)
    }

    /// The row of a relation by its name, as a struct of its columns: `SELECT t FROM t`.
    fn row_of_relation(&mut self, depth: usize, parts: &[(&str, bool)], span: Span) -> Result<Option<Expr>> {
        let Some(scope) = self.scopes.get(depth) else { return Ok(None) };
        let found = scope.relations_of(parts);
        let relation = match found.as_slice() {
            [only] => scope.relations.get(*only),
            _ => None,
        };
        let Some(relation) = relation else { return Ok(None) };
        let catalog = self.world.catalog;
        let columns: Vec<_> = relation.columns.iter().filter(|(name, _)| !catalog.is_hidden(name)).cloned().collect();
        let mut fields = vec![];
        for (name, column) in columns {
            if fields.contains(&text(&name)) {
                return Err(invalid(span, format!("the row of a table with two columns {name} is no value"))
                    .with_hint("give each a name of its own with AS"));
            }
            fields.push(text(&name));
            fields.push(Expr::Column(column));
        }
        self.scalar_call("named_struct", fields, span).map(Some)
    }

    /// The value of a parameter of a lambda or macro around.
    fn local(&self, name: &str, span: Span) -> Result<Option<Expr>> {
        let Some(local) = self.locals.iter().rev().find(|local| local.name == name) else { return Ok(None) };
        if local.depth == self.scopes.len() {
            return Ok(Some(local.value.clone()));
        }
        if matches!(local.value, Expr::LambdaVariable(_)) {
            return Err(invalid(span, format!("the parameter {name} of a lambda cannot be used in a subquery")));
        }
        let around = local.depth.checked_sub(1).and_then(|depth| self.scopes.get(depth));
        match around {
            Some(scope) => scope.outer(local.value.clone()).at(span).map(Some),
            None => Ok(Some(local.value.clone())),
        }
    }

    /// The value of an alias that begins a name, `x` or `alias.x`, and the number of parts that it took.
    fn alias_of(&mut self, parts: &[(&str, bool)], span: Span) -> Result<Option<(Expr, usize)>> {
        let Some((first, _)) = parts.first() else { return Ok(None) };
        if let Some(value) = self.alias(first, span)? {
            return Ok(Some((value, 1)));
        }
        match parts {
            [("alias", false), (name, _), ..] => Ok(self.alias(name, span)?.map(|value| (value, 2))),
            _ => Ok(None),
        }
    }

    /// The value of an alias of the own block.
    fn alias(&mut self, name: &str, span: Span) -> Result<Option<Expr>> {
        let known = self.scope().aliases.iter().find(|(own, _)| own == name);
        let Some(value) = known.map(|(_, value)| value.clone()) else { return Ok(None) };
        if value.is_volatile() {
            let message = format!("{name} cannot be used again: each use would compute another value");
            return Err(invalid(span, message).with_hint("compute it in a subquery"));
        }
        self.count_again(&value, span)?;
        Ok(Some(value))
    }

    /// The field of a value that names lead to.
    pub fn fields(&mut self, value: Expr, names: &[Name]) -> Result<Expr> {
        names.iter().try_fold(value, |value, name| self.field(value, name))
    }

    /// A field of a value.
    pub fn field(&mut self, value: Expr, name: &Name) -> Result<Expr> {
        self.field_named(value, &name.text, name.span)
    }

    /// A field of a value by its name. If a struct has no such field, case does not matter, as long as one field is meant: files have
    /// names that are hard to type.
    pub fn field_named(&mut self, value: Expr, name: &str, span: Span) -> Result<Expr> {
        let (schema, functions) = (self.schema(), self.world.functions);
        let mut own = name.to_owned();
        if let Ok(DataType::Struct(fields)) = value.get_type(&schema)
            && fields.find(name).is_none()
        {
            let mut alike = fields.iter().filter(|field| field.name().to_lowercase() == name.to_lowercase());
            match (alike.next(), alike.next()) {
                (Some(field), None) => own.clone_from(field.name()),
                _ => return Err(unknown(span, "field", name, fields.iter().map(|field| field.name().as_str()))),
            }
        }
        let access = GetFieldAccess::NamedStructField { name: ScalarValue::from(own) };
        functions.access(value, access, &schema).at(span)
    }

    fn no_column(&self, name: &ObjectName) -> Box<BindError> {
        let shown = name.parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(".");
        let parts: Vec<(&str, bool)> = name.parts.iter().map(|part| (part.text.as_str(), part.quoted)).collect();
        let catalog = self.world.catalog;
        for scope in self.scopes.iter().rev() {
            if let Found::NotIn(at) = scope.find(&parts)
                && let Some(relation) = scope.relations.get(at)
                && let Some(table) = relation.names.last()
            {
                let known = relation.columns.iter().filter(|(own, _)| !catalog.is_hidden(own));
                let known: Vec<String> = known.map(|(own, _)| format!("{table}.{own}")).collect();
                return unknown(name.span, "column", &shown, known.iter().map(String::as_str));
            }
        }
        let last = name.parts.last().map_or("", |part| part.text.as_str());
        let known = self.scopes.iter().rev().flat_map(|scope| scope.known_names());
        let known = known.filter(|name| !catalog.is_hidden(name));
        let mut error = unknown(name.span, "column", last, known);
        error.message = format!("no column {shown}");
        error
    }
}

fn ambiguous(name: &ObjectName, columns: &[String]) -> Box<BindError> {
    let shown = name.parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(".");
    let error = |message| BindError::new(ErrorKind::Ambiguous, name.span, message);
    match columns.first().is_some_and(|first| columns.iter().all(|other| other == first)) {
        true => error(format!("column {shown} is ambiguous: several columns have this name"))
            .with_hint("give each a name of its own with AS"),
        false => error(format!("column {shown} could come from several tables"))
            .with_hint(format!("write the table's name before it: {}", columns.join(" or "))),
    }
}
