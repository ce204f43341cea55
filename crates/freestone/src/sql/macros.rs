//! Macros: expressions and queries with parameters, with names from CREATE MACRO. Before a statement is planned, each
//! call is replaced by the macro's definition, with the arguments in place of the parameters.
//!
//! The database stores the text of each CREATE MACRO, as it stores the text of views.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, MacroDefinition, ObjectName,
    OneOrManyWithParens, SelectItem, SetExpr, Statement, TableAlias, TableFactor, Visit, VisitMut, VisitorMut,
};

use super::names::{self, folded};
use super::room::Room;
use super::statement::{Command, parse_script};
use super::{fragments, visitor};
use crate::error::{Error, Result};

/// The maximum depth of macros that call macros.
const LEVELS_MAX: usize = 32;

/// What is known of functions.
pub(crate) struct Known<'a> {
    /// The text of the CREATE MACRO of a name.
    pub text: &'a dyn Fn(&str) -> Option<String>,
    pub is_aggregate: &'a dyn Fn(&str) -> bool,
    /// For what calls stand for.
    pub room: Room,
}

/// Replaces the calls of macros.
///
/// # Errors
/// The arguments of a call do not match the macro's parameters, or macros call each other recursively.
pub(crate) fn expand(sql: &mut impl VisitMut, macros: &Known) -> Result<()> {
    expand_within(sql, macros, 0)
}

fn expand_within(sql: &mut impl VisitMut, macros: &Known, level: usize) -> Result<()> {
    if level > LEVELS_MAX {
        return Err(Error::invalid(format!("macros call each other over more than {LEVELS_MAX} levels"))
            .with_hint("a macro cannot call itself"));
    }
    let mut expansion = Expansion { macros, level, count: 0, done: Ok(()) };
    let _ = visitor::visit_mut(sql, &mut expansion);
    expansion.done
}

struct Expansion<'a> {
    macros: &'a Known<'a>,
    level: usize,
    /// The number of calls whose arguments became a table.
    count: usize,
    done: Result<()>,
}

impl Expansion<'_> {
    fn note(&mut self, done: Result<()>) -> ControlFlow<()> {
        visitor::noted(&mut self.done, done)
    }

    fn find(&self, name: &ObjectName) -> Result<Option<Macro>> {
        let name = match name.0.as_slice() {
            [name] => name,
            [schema, name]
                if schema.as_ident().is_some_and(|schema| matches!(folded(schema).as_str(), "main" | "public")) =>
            {
                name
            }
            _ => return Ok(None),
        };
        let Some(name) = name.as_ident().map(folded) else { return Ok(None) };
        (self.macros.text)(&name).map(|text| Macro::read(&name, &text)).transpose()
    }

    fn call(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Function(call) = &*expr else { return Ok(()) };
        let Some(known) = self.find(&call.name)? else { return Ok(()) };
        let MacroDefinition::Expr(definition) = &known.definition else {
            return Err(Error::invalid(format!("{} is a macro for tables", known.name)).with_hint("name it in FROM"));
        };
        if call.over.is_some() || call.filter.is_some() || !call.within_group.is_empty() {
            return Err(Error::unsupported(format!("OVER and FILTER of the macro {} are not available", known.name))
                .with_hint("write them in the macro"));
        }
        let arguments = match &call.args {
            FunctionArguments::List(list) => known.arguments(&list.args)?,
            _ => known.arguments(&[])?,
        };
        let mut definition = definition.clone();
        expand_within(&mut definition, self.macros, self.level + 1)?;
        other_parameters(&mut definition, &arguments);
        *expr = self.with_arguments(definition, arguments)?;
        Ok(())
    }

    /// A definition with the arguments in place of the parameters. Within a subquery of the definition, a column of an
    /// argument could be taken for one of the subquery's tables. So such arguments are computed as columns of a table of
    /// one row, around the definition.
    fn with_arguments(&mut self, mut definition: Expr, mut arguments: HashMap<String, Expr>) -> Result<Expr> {
        let has_columns = arguments.values().any(|argument| !names_in(argument).is_empty());
        let aggregates = |expr: &Expr| self.aggregates(expr);
        if !has_columns
            || !visitor::has_query(&definition)
            || aggregates(&definition)
            || arguments.values().any(aggregates)
        {
            substitute(&mut definition, &arguments, &self.macros.room)?;
            return Ok(Expr::Nested(Box::new(definition)));
        }
        self.count += 1;
        let row = format!("__macro_{}_{}", self.level, self.count);
        let mut columns = vec![];
        for (name, argument) in &mut arguments {
            if !names_in(argument).is_empty() {
                let column = fragments::quoted(&format!("__{name}"));
                let place = Expr::CompoundIdentifier(vec![fragments::quoted(&row), column.clone()]);
                let expr = std::mem::replace(argument, place);
                columns.push(SelectItem::ExprWithAlias { expr, alias: column });
            }
        }
        substitute(&mut definition, &arguments, &self.macros.room)?;
        let mut values = fragments::bare_query()?;
        if let SetExpr::Select(select) = values.body.as_mut() {
            select.projection = columns;
        }
        let row = fragments::derived(values, Some(fragments::alias(fragments::quoted(&row))));
        let query = fragments::select_query(vec![SelectItem::UnnamedExpr(definition)], row)?;
        Ok(Expr::Subquery(query))
    }

    /// Whether an expression calls an aggregate or a window function, apart from its subqueries.
    fn aggregates(&self, expr: &Expr) -> bool {
        let mut found = false;
        visitor::each_own_expr(&mut expr.clone(), &mut |part| {
            if let Expr::Function(call) = part {
                found |= call.over.is_some() || (self.macros.is_aggregate)(&call.name.to_string().to_lowercase());
            }
        });
        found
    }

    fn table(&mut self, factor: &mut TableFactor) -> Result<()> {
        let (name, args, alias) = match &*factor {
            TableFactor::Table { name, args: Some(args), alias, .. } => (name, &args.args, alias),
            TableFactor::Function { name, args, alias, .. } => (name, args, alias),
            _ => return Ok(()),
        };
        let Some(known) = self.find(name)? else { return Ok(()) };
        let MacroDefinition::Table(query) = &known.definition else { return Ok(()) };
        let arguments = known.arguments(args)?;
        let mut subquery = query.clone();
        expand_within(&mut *subquery, self.macros, self.level + 1)?;
        substitute(&mut *subquery, &arguments, &self.macros.room)?;
        names::give(&mut *subquery);
        let own =
            || TableAlias { explicit: true, name: Ident::with_quote('"', &known.name), columns: vec![], at: None };
        let alias = Some(alias.clone().unwrap_or_else(own));
        *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
        Ok(())
    }
}

impl VisitorMut for Expansion<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let done = self.table(factor);
        self.note(done)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let done = self.call(expr);
        self.note(done)
    }
}

/// A macro as it was created.
struct Macro {
    name: String,
    /// The parameters with their defaults.
    parameters: Vec<(String, Option<Expr>)>,
    definition: MacroDefinition,
}

impl Macro {
    fn read(name: &str, text: &str) -> Result<Macro> {
        let broken = |why: String| Error::invalid(format!("in macro {name}: {why}"));
        let statement = parse_script(text).into_iter().next().ok_or_else(|| broken("it has no text".into()))?;
        let command = statement.command().map_err(|error| broken(error.to_string()))?;
        let Command::Sql(sql) = command else { return Err(broken("its text is no CREATE MACRO".into())) };
        let Statement::CreateMacro { args, definition, .. } = *sql else {
            return Err(broken("its text is no CREATE MACRO".into()));
        };
        let parameter = |arg: ast::MacroArg| (folded(&arg.name), arg.default_expr);
        Ok(Macro {
            name: name.to_owned(),
            parameters: args.unwrap_or_default().into_iter().map(parameter).collect(),
            definition,
        })
    }

    /// The values of the parameters in a call: by position, by name, or the defaults.
    fn arguments(&self, args: &[FunctionArg]) -> Result<HashMap<String, Expr>> {
        let mut arguments = HashMap::new();
        let wrong = || {
            let parameters: Vec<&str> = self.parameters.iter().map(|(name, _)| name.as_str()).collect();
            Error::invalid(format!("macro {} takes the parameters ({})", self.name, parameters.join(", ")))
                .with_hint("give each by its position, or as name := value")
        };
        for (at, arg) in args.iter().enumerate() {
            let (name, value) = match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => {
                    (self.parameters.get(at).map(|(name, _)| name.clone()), value)
                }
                FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => (Some(folded(name)), value),
                _ => return Err(wrong()),
            };
            let name = name.filter(|name| self.parameters.iter().any(|(own, _)| own == name)).ok_or_else(wrong)?;
            if arguments.insert(name, value.clone()).is_some() {
                return Err(wrong());
            }
        }
        for (name, default) in &self.parameters {
            if !arguments.contains_key(name) {
                arguments.insert(name.clone(), default.clone().ok_or_else(wrong)?);
            }
        }
        Ok(arguments)
    }
}

/// The first parts of the names in an expression.
fn names_in(expr: &Expr) -> HashSet<String> {
    let mut names = HashSet::new();
    let _ = visitor::expressions(expr, &mut |part| {
        match part {
            Expr::Identifier(name) => names.extend([folded(name)]),
            Expr::CompoundIdentifier(parts) => names.extend(parts.first().map(folded)),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    names
}

/// Gives the parameters of lambdas other names where an argument has the same ones.
fn other_parameters(definition: &mut Expr, arguments: &HashMap<String, Expr>) {
    let taken: HashSet<String> = arguments.values().flat_map(names_in).collect();
    visitor::expressions_mut(definition, &mut |expr| {
        let Expr::Lambda(lambda) = expr else { return };
        let parameters = match &mut lambda.params {
            OneOrManyWithParens::One(one) => std::slice::from_mut(one),
            OneOrManyWithParens::Many(several) => several.as_mut_slice(),
        };
        for parameter in parameters {
            let name = folded(&parameter.name);
            if !taken.contains(&name) {
                continue;
            }
            let other = fragments::quoted(&format!("__{name}"));
            parameter.name = other.clone();
            visitor::expressions_mut(&mut lambda.body, &mut |expr| match expr {
                Expr::Identifier(own) if folded(own) == name => *own = other.clone(),
                Expr::CompoundIdentifier(parts) => {
                    if let Some(first) = parts.first_mut().filter(|first| folded(first) == name) {
                        *first = other.clone();
                    }
                }
                _ => {}
            });
        }
    });
}

/// Replaces parameters by arguments, also in subqueries.
///
/// # Errors
/// There is no room for the result.
fn substitute(sql: &mut (impl VisitMut + Visit), arguments: &HashMap<String, Expr>, room: &Room) -> Result<()> {
    room.take(sql)?;
    let mut fits = Ok(());
    visitor::expressions_mut(sql, &mut |expr| {
        let Expr::Identifier(name) = &*expr else { return };
        let Some(argument) = arguments.get(&folded(name)).filter(|_| fits.is_ok()) else { return };
        fits = room.take(argument);
        if fits.is_err() {
            return;
        }
        let is_simple =
            matches!(argument, Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Function(_));
        *expr = if is_simple { argument.clone() } else { Expr::Nested(Box::new(argument.clone())) };
    });
    fits
}

/// Checks the text of a CREATE MACRO.
///
/// # Errors
/// It cannot be parsed, or two parameters have the same name.
pub(crate) fn check(name: &str, text: &str) -> Result<()> {
    let known = Macro::read(name, text)?;
    let mut seen = HashSet::new();
    if let Some((twice, _)) = known.parameters.iter().find(|(name, _)| !seen.insert(name.clone())) {
        return Err(Error::invalid(format!("macro {name} has two parameters {twice}")));
    }
    Ok(())
}

/// The parameters of a CREATE MACRO as text.
pub(crate) fn parameters(args: Option<&[ast::MacroArg]>) -> String {
    args.unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
