//! Macros: expressions and queries with parameters, with names from CREATE MACRO. Before a statement is planned, each
//! call is replaced by the macro's definition, with the arguments in place of the parameters.
//!
//! The database stores the text of each CREATE MACRO, as it stores the text of views.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, MacroDefinition, ObjectName, Statement,
    TableAlias, TableFactor, VisitMut, VisitorMut,
};

use super::names::{self, folded};
use super::statement::{Command, parse_script};
use super::visitor;
use crate::error::{Error, Result};

/// The maximum depth of macros that call macros.
const LEVELS_MAX: usize = 32;

/// The text of the CREATE MACRO of a name.
pub(crate) type Macros<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Replaces the calls of macros.
///
/// # Errors
/// The arguments of a call do not match the macro's parameters, or macros call each other recursively.
pub(crate) fn expand(sql: &mut impl VisitMut, macros: &Macros) -> Result<()> {
    expand_within(sql, macros, 0)
}

fn expand_within(sql: &mut impl VisitMut, macros: &Macros, level: usize) -> Result<()> {
    if level > LEVELS_MAX {
        return Err(Error::invalid(format!("macros call each other over more than {LEVELS_MAX} levels"))
            .with_hint("a macro cannot call itself"));
    }
    let mut expansion = Expansion { macros, level, done: Ok(()) };
    let _ = visitor::visit_mut(sql, &mut expansion);
    expansion.done
}

struct Expansion<'a> {
    macros: &'a Macros<'a>,
    level: usize,
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
        (self.macros)(&name).map(|text| Macro::read(&name, &text)).transpose()
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
        substitute(&mut definition, &arguments);
        *expr = Expr::Nested(Box::new(definition));
        Ok(())
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
        substitute(&mut *subquery, &arguments);
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

/// Replaces parameters by arguments, also in subqueries.
fn substitute(sql: &mut impl VisitMut, arguments: &HashMap<String, Expr>) {
    visitor::expressions_mut(sql, &mut |expr| {
        let Expr::Identifier(name) = &*expr else { return };
        let Some(argument) = arguments.get(&folded(name)) else { return };
        let is_simple =
            matches!(argument, Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Function(_));
        *expr = if is_simple { argument.clone() } else { Expr::Nested(Box::new(argument.clone())) };
    });
}

/// Checks the text of a CREATE MACRO.
///
/// # Errors
/// It cannot be parsed, or two parameters have the same name.
pub(crate) fn check(name: &str, text: &str) -> Result<()> {
    let known = Macro::read(name, text)?;
    let mut seen = std::collections::HashSet::new();
    if let Some((twice, _)) = known.parameters.iter().find(|(name, _)| !seen.insert(name.clone())) {
        return Err(Error::invalid(format!("macro {name} has two parameters {twice}")));
    }
    Ok(())
}

/// The parameters of a CREATE MACRO as text.
pub(crate) fn parameters(args: Option<&[ast::MacroArg]>) -> String {
    args.unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
