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
use crate::types::{JSONB, list_of};
use crate::unnests::unnest;
use crate::world::TableArgument;

/// Functions that also return their values as a list.
const SERIES: [&str; 2] = ["generate_series", "range"];
const ORDINALITY: &str = "ordinality";
/// The columns of `json_each` and `json_tree`.
const ENTRIES: [&str; 8] = ["key", "value", "type", "atom", "id", "parent", "fullkey", "path"];

/// A function of JSON that gives rows in FROM.
struct JsonRows {
    name: &'static str,
    /// The functions of the lists that stand next to each other.
    lists: &'static [&'static str],
    columns: &'static [&'static str],
    /// The type of the last column, if it is not text.
    data_type: Option<&'static str>,
}

const fn json_rows(
    name: &'static str,
    lists: &'static [&'static str],
    columns: &'static [&'static str],
    data_type: Option<&'static str>,
) -> JsonRows {
    JsonRows { name, lists, columns, data_type }
}

/// What PostgreSQL has. Its `json_each` has another name here, because DuckDB's has other columns.
static JSON_ROWS: [JsonRows; 10] = [
    json_rows("json_array_elements", &["freestone_json_items"], VALUE, Some("JSON")),
    json_rows("json_array_elements_text", &["freestone_json_item_texts"], VALUE, None),
    json_rows("jsonb_array_elements", &["freestone_jsonb_items"], VALUE, Some(JSONB)),
    json_rows("jsonb_array_elements_text", &["freestone_jsonb_item_texts"], VALUE, None),
    json_rows("json_object_keys", &["freestone_json_keys"], &["json_object_keys"], None),
    json_rows("jsonb_object_keys", &["freestone_jsonb_keys"], &["jsonb_object_keys"], None),
    json_rows("freestone_json_each", &["freestone_json_keys", "freestone_json_values"], KEY_VALUE, Some("JSON")),
    json_rows("json_each_text", &["freestone_json_keys", "freestone_json_value_texts"], KEY_VALUE, None),
    json_rows("jsonb_each", &["freestone_jsonb_keys", "freestone_jsonb_values"], KEY_VALUE, Some(JSONB)),
    json_rows("jsonb_each_text", &["freestone_jsonb_keys", "freestone_jsonb_value_texts"], KEY_VALUE, None),
];
const KEY_VALUE: &[&str] = &["key", "value"];
const VALUE: &[&str] = &["value"];

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
            name => match JSON_ROWS.iter().find(|known| known.name == name) {
                Some(of) => self.rows_of_json(of, &plain.arguments, ordinality, span)?,
                None => self.scan_of_call(name, &plain.arguments, None, ordinality, span)?,
            },
        };
        let own = if ordinality { 2 } else { 1 };
        let is_named = alias.is_some_and(|alias| !alias.columns.is_empty());
        let names = match plain.name.as_str() {
            "generate_series" => &["generate_series", "value"][..],
            "range" => &["range", "value"],
            "unnest" => &["unnest"],
            "json_object_keys" => &["json_object_keys"],
            "jsonb_object_keys" => &["jsonb_object_keys"],
            _ => &[],
        };
        if names.is_empty() || is_named || rows.names.len() != own {
            let has_value = !is_named && is_value_of_json(&plain.name);
            let mut from = self.relation(rows, alias, vec![plain.name], span)?;
            hide_file_names(&mut from);
            // The name of the function is that of the value, too, whose column has its own.
            if let Some(relation) = from.relations.first_mut().filter(|_| has_value) {
                relation.function_names = VALUE;
            }
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

    /// The rows of a document.
    fn rows_of_json(&mut self, of: &JsonRows, arguments: &[Argument], ordinality: bool, span: Span) -> Result<Rows> {
        let mut values = self.values_of(arguments)?;
        let (Some(document), true) = (values.pop(), values.is_empty()) else {
            return Err(invalid(span, format!("{} takes one document", of.name)));
        };
        let mut lists = vec![];
        for function in of.lists {
            lists.push(self.scalar_call(function, vec![document.clone()], span)?);
        }
        let Rows { plan, mut names } = self.rows_of_lists(of.name, lists, ordinality, span)?;
        names.iter_mut().zip(of.columns).for_each(|(own, name)| (*name).clone_into(own));
        let mut columns = plans::columns(plan.schema());
        let last = of.columns.len().saturating_sub(1);
        if let (Some(value), Some(data_type)) = (columns.get_mut(last), of.data_type) {
            let text_of = std::mem::take(value);
            let cast = match data_type {
                JSONB => self.scalar_call("freestone_as_normal", vec![text_of, text(JSONB)], span)?,
                _ => self.scalar_call("freestone_json", vec![text_of], span)?,
            };
            *value = cast.alias("value");
        }
        Ok(Rows { plan: plans::project(plan, columns).at(span)?, names })
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

/// Whether a function in FROM has one column with values of a document.
fn is_value_of_json(function: &str) -> bool {
    JSON_ROWS.iter().any(|known| known.name == function && known.columns == VALUE)
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
