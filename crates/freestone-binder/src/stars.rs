//! Stars and COLUMNS: several columns at once.

use arrow_schema::DataType;
use datafusion_common::ScalarValue;
use datafusion_common::arrow::array::{Array, ArrayRef};
use datafusion_expr::{Expr, ExprSchemable};
use freestone_sql::Span;
use freestone_sql::tree::{
    self, Argument, BinaryOperator, ExprKind, LikeOperator, Literal, Name, ObjectName, Star, StarPattern,
};

use crate::binder::Binder;
use crate::error::{At, BindError, ErrorKind, Result, invalid, unknown};
use crate::expressions::text;
use crate::headings;
use crate::scopes::{Local, Relation, Scope, matching};
use crate::select::Item;

/// The local that has the column of COLUMNS. No name of a query can be it.
pub(crate) const COLUMNS: &str = "\u{1}columns";

impl Binder<'_> {
    /// The columns of a star.
    pub fn star(&mut self, star: &Star, span: Span) -> Result<Vec<Item>> {
        let mut columns = self.star_columns(star, span)?;
        for name in &star.exclude {
            match self.excludes_merged(name, &star.exclude) {
                true => columns.retain(|column| column.relation.is_some() || !is_called(column, name)),
                false => exclude(&mut columns, name)?,
            }
        }
        if let Some(pattern) = &star.like {
            let mut kept = vec![];
            for column in columns {
                if self.name_is_like(&column.item.name, pattern, span)? != pattern.negated {
                    kept.push(column);
                }
            }
            columns = kept;
        }
        let mut items: Vec<Item> = columns.into_iter().map(|column| column.item).collect();
        for (value, name) in &star.replace {
            let at = place(&items, name, "REPLACE")?;
            let value = self.expression(value)?;
            if let Some(item) = items.get_mut(at) {
                item.value = value;
            }
        }
        for (old, new) in &star.rename {
            let Some(last) = old.parts.last() else { continue };
            let at = place(&items, last, "RENAME")?;
            if let Some(item) = items.get_mut(at) {
                item.name = new.text.clone();
            }
        }
        Ok(items)
    }

    /// Whether EXCLUDE names all columns that a join has merged to one, each with its table.
    fn excludes_merged(&self, name: &ObjectName, all: &[ObjectName]) -> bool {
        let [table, column] = name.parts.as_slice() else { return false };
        let is_named = |relation: &Relation, table: &Name| relation.names.last() == Some(&table.text);
        let scope = self.scope();
        let merged = scope.star.iter().any(|entry| entry.relation.is_none() && entry.name == column.text);
        let has_column = |relation: &&Relation| relation.columns.iter().any(|(own, _)| *own == column.text);
        let mut of_column = scope.relations.iter().filter(has_column);
        let is_excluded = |relation: &Relation| {
            all.iter().any(|other| match other.parts.as_slice() {
                [table, own] => own.text == column.text && is_named(relation, table),
                _ => false,
            })
        };
        merged && scope.relations.iter().any(|relation| is_named(relation, table)) && of_column.all(is_excluded)
    }

    /// The columns of a star that is an item. `alias` has the groups of its pattern.
    pub fn star_item(&mut self, star: &Star, alias: Option<&Name>, span: Span) -> Result<Vec<Item>> {
        let mut items = self.star(star, span)?;
        if let (Some(alias), Some(pattern)) = (alias, &star.like) {
            for item in &mut items {
                item.name = match pattern.has_groups() {
                    true => self.name_by_pattern(&pattern.pattern.value, &alias.text, &item.name, alias.span)?,
                    false => alias.text.replace("\\0", &item.name),
                };
            }
        }
        Ok(items)
    }

    fn star_columns(&mut self, star: &Star, span: Span) -> Result<Vec<Starred>> {
        let scope = self.scope();
        let Some(qualifier) = &star.qualifier else {
            if scope.relations.is_empty() {
                return Err(invalid(span, "* stands for the columns of FROM, and there is no FROM"));
            }
            let starred = |entry: &crate::scopes::Entry| Starred {
                item: Item { value: entry.value.clone(), name: entry.name.clone() },
                relation: entry.relation.and_then(|at| scope.relations.get(at)?.names.last().cloned()),
            };
            return Ok(scope.star.iter().map(starred).collect());
        };
        let names: Vec<(&str, bool)> = qualifier.parts.iter().map(|part| (part.text.as_str(), part.quoted)).collect();
        let same = scope.relations_of(&names);
        if same.len() > 1 {
            let message = format!("{}.* is ambiguous: several tables have this name", crate::reading::shown(qualifier));
            return Err(BindError::new(ErrorKind::Ambiguous, qualifier.span, message)
                .with_hint("give each a name of its own with AS"));
        }
        if let Some(relation) = same.first().and_then(|at| scope.relations.get(*at)) {
            let starred = |(name, column): &(String, datafusion_common::Column)| Starred {
                item: Item { value: Expr::Column(column.clone()), name: name.clone() },
                relation: relation.names.last().cloned(),
            };
            return Ok(relation.columns.iter().map(starred).collect());
        }
        let known: Vec<String> = scope.relations.iter().filter_map(|one| one.names.last().cloned()).collect();
        match self.resolved(qualifier)? {
            Some(value) => {
                let fields = self.fields_of(value, span)?;
                Ok(fields.into_iter().map(|item| Starred { item, relation: None }).collect())
            }
            None => {
                let name = crate::reading::shown(qualifier);
                Err(unknown(qualifier.span, "table", &name, known.iter().map(String::as_str)))
            }
        }
    }

    /// All fields of a struct.
    pub fn fields_of(&mut self, value: Expr, span: Span) -> Result<Vec<Item>> {
        let schema = self.schema();
        let DataType::Struct(fields) = value.get_type(&schema).at(span)? else {
            return Err(invalid(span, "a star behind a value stands for the fields of a struct"));
        };
        let mut items = vec![];
        for field in &fields {
            let value = self.get_field(value.clone(), field.name(), span)?;
            items.push(Item { value, name: field.name().clone() });
        }
        Ok(items)
    }

    /// The copies of an expression, one per column of its COLUMNS; `None` without COLUMNS.
    pub fn copies(&mut self, written: &tree::Expr, alias: Option<&Name>) -> Result<Option<Vec<Item>>> {
        let mut found: Vec<tree::Expr> = vec![];
        tree::each_part(written, &mut |part| {
            if let ExprKind::Columns(argument) = &part.kind
                && !found.contains(argument)
            {
                found.push((**argument).clone());
            }
        });
        let argument = match found.as_slice() {
            [] => return Ok(None),
            [one] => one,
            _ => {
                let message = "an expression has several COLUMNS that differ: they must be the same";
                return Err(invalid(written.span, message));
            }
        };
        let columns = self.selected(argument)?;
        let mut items = vec![];
        for Item { value, name } in columns {
            let (before, depth) = (self.locals.len(), self.scopes.len());
            self.locals.push(Local { name: COLUMNS.to_owned(), value, depth });
            let bound = self.expression(written);
            self.locals.truncate(before);
            let name = match alias {
                None => name,
                Some(alias) if !alias.text.contains('\\') => alias.text.clone(),
                Some(alias) => {
                    let pattern = match &argument.kind {
                        ExprKind::Literal(Literal::Text(pattern)) => pattern.as_str(),
                        _ => ".*",
                    };
                    self.name_by_pattern(pattern, &alias.text, &name, argument.span)?
                }
            };
            items.push(Item { value: bound?, name });
        }
        Ok(Some(items))
    }

    /// The arguments of a call in which each `*COLUMNS(…)` is as many arguments as it selects columns. They are locals, which
    /// the caller takes away again.
    pub fn with_unpacked(&mut self, written: Vec<Argument>, has_names: bool) -> Result<Vec<Argument>> {
        let mut arguments = vec![];
        for argument in written {
            let ExprKind::Unpacked(columns) = &argument.value.kind else {
                arguments.push(argument);
                continue;
            };
            let (span, depth) = (argument.value.span, self.scopes.len());
            for Item { value, name } in self.selected(columns)? {
                let local = format!("{COLUMNS}{}", self.locals.len());
                let part = |text: &str| Name { text: text.to_owned(), quoted: true, span };
                let column = ObjectName { parts: vec![part(&local)], span };
                let value_name = has_names.then(|| part(&name));
                self.locals.push(Local { name: local, value, depth });
                let value = tree::Expr { kind: ExprKind::Column(column), span };
                arguments.push(Argument { name: value_name, value });
            }
        }
        Ok(arguments)
    }

    /// The column of COLUMNS that is being bound.
    pub fn column_of_copies(&self) -> Option<Expr> {
        self.locals.iter().rev().find(|local| local.name == COLUMNS).map(|local| local.value.clone())
    }

    /// The columns that the argument of COLUMNS selects.
    pub fn selected(&mut self, argument: &tree::Expr) -> Result<Vec<Item>> {
        let span = argument.span;
        let all = |binder: &mut Self| binder.star(&Star::default(), span);
        let items = match &argument.kind {
            ExprKind::Star(star) => return self.star(star, span),
            ExprKind::List(names) if names.iter().all(is_name) => {
                let items = all(self)?;
                let named = names.iter().map(|name| of_name(&items, &written_name(name), name.span));
                return named.collect::<Result<Vec<_>>>().map(each_once);
            }
            ExprKind::Literal(Literal::Text(pattern)) => self.like_expression(pattern, span)?,
            ExprKind::Lambda { parameters, body } => {
                let [parameter] = parameters.as_slice() else {
                    return Err(invalid(span, "the lambda of COLUMNS takes one name"));
                };
                let mut kept = vec![];
                for item in all(self)? {
                    let value = (parameter.text.clone(), text(&item.name));
                    let condition = self.with_arguments(vec![value], span, |binder| binder.expression(body))?;
                    if self.is_true(condition, span)? {
                        kept.push(item);
                    }
                }
                kept
            }
            _ => match self.value_of_names(argument)? {
                Names::Pattern(pattern) => self.like_expression(&pattern, span)?,
                Names::List(names) => {
                    let items = all(self)?;
                    let named = names.iter().map(|name| of_name(&items, name, span));
                    return named.collect::<Result<Vec<_>>>().map(each_once);
                }
            },
        };
        if items.is_empty() {
            return Err(invalid(span, "COLUMNS selects no column"));
        }
        Ok(items)
    }

    /// The columns whose names match a regular expression.
    fn like_expression(&mut self, pattern: &str, span: Span) -> Result<Vec<Item>> {
        let mut kept = vec![];
        for item in self.star(&Star::default(), span)? {
            let (name, pattern, schema) = (text(&item.name), text(pattern), self.schema());
            let condition = self.world.functions.binary(BinaryOperator::Match, name, pattern, &schema).at(span)?;
            if self.is_true(condition, span)? {
                kept.push(item);
            }
        }
        Ok(kept)
    }

    /// The value of an argument of COLUMNS that is computed. A star in it is the list of its names.
    fn value_of_names(&mut self, argument: &tree::Expr) -> Result<Names> {
        let span = argument.span;
        let mut stars = vec![];
        tree::each_part(argument, &mut |part| {
            if let ExprKind::Star(star) = &part.kind {
                stars.push((star.clone(), part.span));
            }
        });
        let mut lists = vec![];
        for (star, span) in stars {
            let literal = |item: Item| tree::Expr { kind: ExprKind::Literal(Literal::Text(item.name)), span };
            lists.push(ExprKind::List(self.star(&star, span)?.into_iter().map(literal).collect()));
        }
        let (mut written, mut lists) = (argument.clone(), lists.into_iter());
        tree::each_part_mut(&mut written, &mut |part| {
            if matches!(part.kind, ExprKind::Star(_))
                && let Some(list) = lists.next()
            {
                part.kind = list;
            }
        });
        let (value, _) = self.within(Scope::empty(), |binder| binder.expression(&written))?;
        let value = self.world.functions.constant(value).at(span)?;
        let names = match &value {
            ScalarValue::List(list) if !list.is_null(0) => texts_of(&list.value(0)),
            value => {
                return value.try_as_str().flatten().map(|text| Names::Pattern(text.to_owned())).ok_or_else(|| {
                    invalid(span, "COLUMNS does not take this")
                        .with_hint("COLUMNS(*), COLUMNS('pattern'), COLUMNS(['a', 'b']) or COLUMNS(lambda name: …)")
                });
            }
        };
        match names {
            Some(names) if !names.is_empty() => Ok(Names::List(names)),
            _ => Err(invalid(span, "COLUMNS takes a list of names, which is not empty")),
        }
    }

    /// Whether a name is like a pattern.
    fn name_is_like(&mut self, name: &str, by: &StarPattern, span: Span) -> Result<bool> {
        let literal =
            |text: &str| Box::new(tree::Expr { kind: ExprKind::Literal(Literal::Text(text.to_owned())), span });
        let (operator, pattern) = (by.operator, by.pattern.value.as_str());
        if operator == LikeOperator::SimilarTo {
            // A regular expression for the whole name, as in DuckDB.
            let (name, pattern, schema) = (text(name), text(&format!("^(?:{pattern})$")), self.schema());
            let condition = self.world.functions.binary(BinaryOperator::Match, name, pattern, &schema).at(span)?;
            return self.is_true(condition, span);
        }
        let (operand, pattern) = (literal(name), literal(pattern));
        let escape = by.escape.as_ref().map(|escape| literal(&escape.value));
        let kind = ExprKind::Like { operand, negated: false, operator, pattern, escape };
        let written = tree::Expr { kind, span };
        let (condition, _) = self.within(Scope::empty(), |binder| binder.expression(&written))?;
        self.is_true(condition, span)
    }

    /// The alias of a column: `\0` is its name, and `\1` the first group of the pattern's match.
    fn name_by_pattern(&mut self, pattern: &str, alias: &str, name: &str, span: Span) -> Result<String> {
        let arguments = vec![text(name), text(&format!("^.*?{pattern}.*$")), text(&alias.replace("\\0", name))];
        let replaced = self.scalar_call("regexp_replace", arguments, span)?;
        let value = self.world.functions.constant(replaced).at(span)?;
        Ok(value.try_as_str().flatten().map_or_else(|| name.to_owned(), str::to_owned))
    }

    fn is_true(&self, condition: Expr, span: Span) -> Result<bool> {
        Ok(self.world.functions.constant(condition).at(span)? == ScalarValue::Boolean(Some(true)))
    }
}

/// What a computed argument of COLUMNS selects.
enum Names {
    Pattern(String),
    List(Vec<String>),
}

/// A column of a star, with the name of its relation.
struct Starred {
    item: Item,
    relation: Option<String>,
}

fn exclude(columns: &mut Vec<Starred>, name: &ObjectName) -> Result<()> {
    let mut parts = name.parts.iter().rev();
    let Some(column) = parts.next() else { return Ok(()) };
    let table = parts.next();
    let places = matching(columns.iter().map(|one| one.item.name.as_str()), (&column.text, column.quoted));
    let is_of = |one: &Starred| table.is_none_or(|table| one.relation.as_ref() == Some(&table.text));
    let excluded: Vec<usize> = places.into_iter().filter(|at| columns.get(*at).is_some_and(is_of)).collect();
    if excluded.is_empty() {
        let known = columns.iter().map(|one| one.item.name.as_str());
        return Err(unknown(name.span, "column in * to EXCLUDE:", &column.text, known));
    }
    let mut at = 0;
    columns.retain(|_| {
        at += 1;
        !excluded.contains(&(at - 1))
    });
    Ok(())
}

/// The place of a column that a clause of a star names.
fn place(items: &[Item], name: &Name, clause: &str) -> Result<usize> {
    let places = matching(items.iter().map(|item| item.name.as_str()), (&name.text, name.quoted));
    let known = items.iter().map(|item| item.name.as_str());
    let what = format!("column in * to {clause}:");
    places.first().copied().ok_or_else(|| unknown(name.span, &what, &name.text, known))
}

fn of_name(items: &[Item], wanted: &str, span: Span) -> Result<Item> {
    let found = items.iter().find(|item| item.name.eq_ignore_ascii_case(wanted)).cloned();
    found.ok_or_else(|| unknown(span, "column", wanted, items.iter().map(|item| item.name.as_str())))
}

/// Whether an item of a list of names is one, so that nothing is computed.
fn is_name(name: &tree::Expr) -> bool {
    matches!(name.kind, ExprKind::Literal(Literal::Text(_)) | ExprKind::Column(_))
}

fn written_name(name: &tree::Expr) -> String {
    match &name.kind {
        ExprKind::Literal(Literal::Text(name)) => name.clone(),
        _ => headings::last_name(name),
    }
}

/// Columns of which each is there once.
fn each_once(items: Vec<Item>) -> Vec<Item> {
    let mut kept: Vec<Item> = vec![];
    for item in items {
        if !kept.iter().any(|known| known.name == item.name) {
            kept.push(item);
        }
    }
    kept
}

/// The texts of an array; `None` if one is NULL, or it has other values.
fn texts_of(values: &ArrayRef) -> Option<Vec<String>> {
    let text = |at: usize| {
        let value = ScalarValue::try_from_array(values, at).ok()?;
        value.try_as_str().flatten().map(str::to_owned)
    };
    (0..values.len()).map(text).collect()
}

fn is_called(column: &Starred, name: &ObjectName) -> bool {
    name.parts.last().is_some_and(|last| last.text == column.item.name)
}
