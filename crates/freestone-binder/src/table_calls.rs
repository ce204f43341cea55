//! Functions in FROM.

use arrow_schema::DataType;
use datafusion_common::tree_node::TreeNode;
use datafusion_common::{Column, TableReference};
use datafusion_expr::{Cast, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use freestone_sql::Span;
use freestone_sql::tree::{self, Argument, BinaryOperator, Call, ExprKind, Link, Select, SelectItem, TableAlias};

use crate::binder::Binder;
use crate::error::{At, Result, invalid, unsupported};
use crate::expressions::{integer, text};
use crate::plans::{self, Rows};
use crate::scopes::Scope;
use crate::tables::{From, hide_file_names};
use crate::types::list_of;
use crate::unnests::unnest;
use crate::world::TableArgument;

/// Functions that also return their values as a list.
const SERIES: [&str; 2] = ["generate_series", "range"];
const ORDINALITY: &str = "ordinality";
/// The columns of `json_each` and `json_tree`.
const ENTRIES: [&str; 8] = ["key", "value", "type", "atom", "id", "parent", "fullkey", "path"];

impl Binder<'_> {
    /// `f(…) [WITH ORDINALITY]`.
    pub fn table_call(
        &mut self,
        call: &Call,
        ordinality: bool,
        alias: Option<&TableAlias>,
        span: Span,
    ) -> Result<From> {
        let plain = self.plain(call, span)?;
        self.without_clauses(&plain)?;
        if let Some(rows) = self.macro_rows(&plain.name, &plain.arguments, span)? {
            return self.relation(rows, alias, vec![plain.name], span);
        }
        let is_series = SERIES.contains(&plain.name.as_str());
        let rows = match plain.name.as_str() {
            "unnest" if !ordinality && has_options(&plain.arguments) => self.deep_rows(call, span)?,
            "unnest" => {
                let lists = self.values_of(&plain.arguments)?;
                self.rows_of_lists("unnest", lists, ordinality, span)?
            }
            "repeat" if plain.arguments.len() == 2 => {
                let values = self.values_of(&plain.arguments)?;
                let list = self.scalar_call("array_repeat", values, span)?;
                self.rows_of_lists("repeat", vec![list], ordinality, span)?
            }
            "json_each" | "json_tree" => self.json_entries(&plain.name, &plain.arguments, span)?,
            name if is_series => {
                let values = self.values_of(&plain.arguments)?;
                match values.iter().any(reads_columns) {
                    true => {
                        let list = self.scalar_call(name, values, span)?;
                        self.rows_of_lists(name, vec![list], ordinality, span)?
                    }
                    false => self.scan_of_call(name, &plain.arguments, Some(values), ordinality, span)?,
                }
            }
            name => self.scan_of_call(name, &plain.arguments, None, ordinality, span)?,
        };
        let own = if ordinality { 2 } else { 1 };
        let is_named = alias.is_some_and(|alias| !alias.columns.is_empty());
        let names = match plain.name.as_str() {
            "generate_series" => &["generate_series", "value"][..],
            "range" => &["range", "value"],
            "unnest" => &["unnest"],
            _ => &[],
        };
        if names.is_empty() || is_named || rows.names.len() != own {
            let mut from = self.relation(rows, alias, vec![plain.name], span)?;
            hide_file_names(&mut from);
            return Ok(from);
        }
        // The alias of the function is the name of its column, too, as in PostgreSQL.
        let alias = alias.map(|alias| TableAlias { columns: vec![alias.name.clone()], ..alias.clone() });
        let mut from = self.relation(rows, alias.as_ref(), vec![plain.name], span)?;
        if let Some(relation) = from.relations.first_mut() {
            relation.function_names = names;
        }
        Ok(from)
    }

    /// `unnest(list, recursive := true)` as the rows of a SELECT of it.
    fn deep_rows(&mut self, call: &Call, span: Span) -> Result<Rows> {
        let arguments = call.arguments.iter().map(option).collect();
        let call = Call { arguments, ..call.clone() };
        let value = tree::Expr { kind: ExprKind::Call(Box::new(call)), span };
        let select = Select::of_items(vec![SelectItem { value, alias: None }], span);
        self.select(&select, None, span)
    }

    /// The values of arguments, which may read the tables to the left and around.
    fn values_of(&mut self, arguments: &[Argument]) -> Result<Vec<Expr>> {
        if let Some(named) = arguments.iter().find(|argument| argument.name.is_some()) {
            return Err(invalid(named.value.span, "this function takes no arguments by name")
                .with_hint("give them by position"));
        }
        let bind = |binder: &mut Self| arguments.iter().map(|argument| binder.expression(&argument.value)).collect();
        self.within(Scope::empty(), bind).map(|(values, _)| values)
    }

    /// The rows of lists, which stand next to each other.
    fn rows_of_lists(&mut self, name: &str, lists: Vec<Expr>, ordinality: bool, span: Span) -> Result<Rows> {
        let schema = datafusion_common::DFSchema::empty();
        let mut names: Vec<String> = vec![];
        let mut values = vec![];
        for (at, mut list) in lists.into_iter().enumerate() {
            match list.get_type(&schema).at(span)? {
                DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {}
                DataType::Null => list = Expr::Cast(Cast::new(Box::new(list), list_of(DataType::Int32))),
                DataType::Struct(_) => {
                    return Err(invalid(span, "unnest in FROM makes rows of lists, and this is a struct")
                        .with_hint("unnest(struct) in SELECT makes a column of each field"));
                }
                other => {
                    return Err(invalid(span, format!("{name} takes a list, and was given {other}"))
                        .with_hint("write a list as [1, 2] or ARRAY[1, 2]"));
                }
            }
            names.push(if at == 0 { name.to_owned() } else { format!("{name}_{at}") });
            values.push(list);
        }
        if values.is_empty() {
            return Err(invalid(span, "unnest takes a list"));
        }
        let mut plan = LogicalPlanBuilder::empty(true).build().at(span)?;
        let named = values.into_iter().zip(&names).map(|(list, name)| list.alias(name)).collect();
        plan = plans::project(plan, named).at(span)?;
        if ordinality {
            let lists = plans::columns(plan.schema());
            let mut lengths = vec![];
            for list in &lists {
                lengths.push(self.scalar_call("len", vec![list.clone()], span)?);
            }
            let length = match lengths.len() {
                1 => lengths.remove(0),
                _ => self.scalar_call("greatest", lengths, span)?,
            };
            let numbers = self.scalar_call("generate_series", vec![integer(1), length], span)?.alias(ORDINALITY);
            plan = plans::project(plan, lists.into_iter().chain([numbers]).collect()).at(span)?;
            names.push(ORDINALITY.to_owned());
        }
        let columns = names.iter().map(Column::from_name).collect();
        Ok(Rows { plan: unnest(plan, columns).at(span)?, names })
    }

    /// A scan of the table that a function returns.
    fn scan_of_call(
        &mut self,
        name: &str,
        arguments: &[Argument],
        values: Option<Vec<Expr>>,
        ordinality: bool,
        span: Span,
    ) -> Result<Rows> {
        let mut given = vec![];
        for (at, argument) in arguments.iter().map(option).enumerate() {
            let value = match (&argument.name, &values) {
                (Some(_), _) => None,
                (None, Some(values)) => values.get(at).cloned(),
                (None, None) => {
                    let (value, _) = self.within(Scope::empty(), |binder| binder.expression(&argument.value))?;
                    if reads_columns(&value) {
                        let span = argument.value.span;
                        // What it is, the run says.
                        if value.exists(|part| Ok(matches!(part, Expr::Placeholder(_)))).at(span)? {
                            return Err(unsupported(span, "a function in FROM of a parameter"));
                        }
                        return Err(invalid(span, format!("{name} takes constants, and no columns of tables")));
                    }
                    Some(value)
                }
            };
            given.push(TableArgument { name: argument.name.clone(), written: argument.value.clone(), value });
        }
        let Some(source) = self.world.functions.table(name, &given).at(span)? else {
            return Err(self.no_function(name, span));
        };
        let mut names: Vec<String> = source.schema().fields().iter().map(|field| field.name().clone()).collect();
        if SERIES.contains(&name)
            && let Some(first) = names.first_mut()
        {
            name.clone_into(first);
        }
        let scanned = TableReference::bare(format!("{name}()"));
        let plan = LogicalPlanBuilder::scan(scanned, source, None).at(span)?.build().at(span)?;
        if !ordinality {
            return Ok(Rows { plan, names });
        }
        names.push(ORDINALITY.to_owned());
        let plan = self.with_ordinality(plan, span)?;
        Ok(Rows { plan, names })
    }

    fn with_ordinality(&mut self, plan: LogicalPlan, span: Span) -> Result<LogicalPlan> {
        let scope = Scope::of_schema(plan.schema());
        let (number, _) = self.within(scope, |binder| binder.over("row_number", vec![], vec![], vec![], span))?;
        let mut values = plans::columns(plan.schema());
        let plan = LogicalPlanBuilder::window_plan(plan, vec![number]).at(span)?;
        let number = Expr::Column(plans::column(plan.schema(), values.len()));
        values.push(Expr::Cast(Cast::new(Box::new(number), DataType::Int64)).alias(ORDINALITY));
        plans::project(plan, values).at(span)
    }

    /// `json_each(json, path)` and `json_tree`: the entries of JSON.
    fn json_entries(&mut self, name: &str, arguments: &[Argument], span: Span) -> Result<Rows> {
        let mut values = self.values_of(arguments)?;
        match values.len() {
            1 => values.push(text("$")),
            2 => {}
            _ => return Err(invalid(span, format!("{name} takes JSON and, optionally, a path"))),
        }
        let is_tree = datafusion_common::ScalarValue::Boolean(Some(name == "json_tree"));
        values.push(Expr::Literal(is_tree, None));
        let entries = self.scalar_call("freestone_json_entries", values, span)?;
        let rows = self.rows_of_lists("e", vec![entries], false, span)?;
        let entry = Expr::Column(plans::column(rows.plan.schema(), 0));
        let mut columns = vec![];
        for column in ENTRIES {
            columns.push(self.get_field(entry.clone(), column, span)?.alias(column));
        }
        let names = ENTRIES.iter().map(|name| (*name).to_owned()).collect();
        Ok(Rows { plan: plans::project(rows.plan, columns).at(span)?, names })
    }
}

/// Whether arguments have names, also by `name = value`.
fn has_options(arguments: &[Argument]) -> bool {
    arguments.iter().any(|argument| option(argument).name.is_some())
}

/// An argument of a function in FROM, where `name = value` gives an option, as `name => value` does.
fn option(argument: &Argument) -> Argument {
    if let (None, ExprKind::Chain { first, rest }) = (&argument.name, &argument.value.kind)
        && let Some(name) = option_name(first)
        && let [Link { operator: BinaryOperator::Eq, operand, .. }] = rest.as_slice()
    {
        return Argument { name: Some(name), value: operand.clone() };
    }
    argument.clone()
}

/// The name of an option, which may be the word NULL.
fn option_name(written: &tree::Expr) -> Option<tree::Name> {
    match &written.kind {
        ExprKind::Column(name) => match name.parts.as_slice() {
            [only] => Some(only.clone()),
            _ => None,
        },
        ExprKind::Literal(tree::Literal::Null) => {
            Some(tree::Name { text: "null".to_owned(), quoted: false, span: written.span })
        }
        _ => None,
    }
}

/// Whether a value reads columns of other tables.
pub(crate) fn reads_columns(value: &Expr) -> bool {
    let reads = |part: &Expr| {
        let is_open = matches!(
            part,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Placeholder(_)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
        );
        Ok(is_open)
    };
    value.exists(reads).unwrap_or(true)
}
