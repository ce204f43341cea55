//! The binder's state, its entry points, and its limits.

use std::sync::Arc;

use arrow_schema::{Field, FieldRef};
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, DFSchemaRef, ScalarValue};
use datafusion_expr::{Expr, LogicalPlan};
use freestone_sql::tree;
use freestone_sql::{LEVELS_MAX as LINKS_MAX, ParameterNumbers, Span};

use crate::bound::{Bound, Heading};
use crate::ctes::Cte;
use crate::error::{At, Result, invalid, too_complex};
use crate::origins::Origin;
use crate::plans::Rows;
use crate::qualifiers::Qualifiers;
use crate::reading;
use crate::scopes::{Local, Scope};
use crate::types::SqlType;
use crate::world::World;

/// The expressions and relations that a statement may have at most, with those that stars stand for.
const NODES_MAX: usize = 1_000_000;

/// The expressions that aliases and macros may stand for in a statement.
const COPIES_MAX: usize = 100_000;

/// The largest number of a parameter, as in PostgreSQL's protocol.
const PARAMETERS_MAX: u32 = 65_535;

/// The depth of macros, definitions and views that stand for others.
pub(crate) const LEVELS_MAX: usize = 32;

/// The stack that one level takes at most, and what is added when less is left.
const STACK_BYTES_LEFT: usize = 256 << 10;
const STACK_BYTES: usize = 4 << 20;

/// What is known of a parameter beforehand.
#[derive(Debug, Clone, Default)]
pub enum Parameter {
    /// Nothing: it takes its type from where it stands.
    #[default]
    Unknown,
    /// Its type.
    Typed(FieldRef),
    /// Its value, which stands in its place. A text of type `Utf8` and NULL are as if they were written in the statement.
    Value(ScalarValue),
}

/// What is known of a statement beforehand.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The parameters by their numbers, from `$1`. Names `$a` have the numbers of their first appearance.
    pub parameters: Vec<Parameter>,
    /// Whether the statement is bound for a run: it cannot have more parameters than these.
    pub for_run: bool,
    /// The numbers of the parameters of the whole statement, if the query is only a part of it.
    pub numbers: Option<ParameterNumbers>,
}

/// Binds a query.
///
/// # Errors
/// The first part that is wrong, or of a form that is not bound yet.
pub fn bind(query: &tree::Query, world: World, options: &Options) -> std::result::Result<Bound, Box<crate::BindError>> {
    let mut binder = Binder::new(world, options);
    binder.number_parameters(query)?;
    let Rows { plan, names } = binder.query(query)?;
    let is_volatile = binder.is_volatile || reads_anew(&plan).at(query.span)?;
    let fields = plan.schema().fields().iter().cloned();
    let headings = names.into_iter().zip(fields).map(|(name, field)| Heading { name, field }).collect();
    let parameters = binder.parameters_of(&plan).at(query.span)?;
    let Binder { tables, depends_on_order, .. } = binder;
    Ok(Bound { plan, headings, parameters, tables, is_volatile, depends_on_order })
}

/// Binds an expression over the columns of one relation, such as a CHECK or a DEFAULT.
///
/// # Errors
/// The first part that is wrong, or of a form that is not bound yet.
pub fn bind_expression(
    expression: &tree::Expr,
    relation: &DFSchemaRef,
    world: World,
) -> std::result::Result<Expr, Box<crate::BindError>> {
    let options = Options::default();
    let mut binder = Binder::new(world, &options);
    binder.note_collations(relation);
    binder.scopes.push(Scope::of_schema(relation));
    binder.expression(expression)
}

/// The type of a name, such as that of a column.
///
/// # Errors
/// There is no such type.
pub fn bind_type(written: &tree::Type, world: World) -> std::result::Result<SqlType, Box<crate::BindError>> {
    Binder::new(world, &Options::default()).sql_type(written)
}

/// Whether a plan calls a volatile function.
pub(crate) fn reads_anew(plan: &LogicalPlan) -> datafusion_common::Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            found |= expression.is_volatile();
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}

/// The state of binding one statement.
pub(crate) struct Binder<'a> {
    pub world: World<'a>,
    pub options: &'a Options,
    /// The query blocks around what is being bound, outermost first. The last one is its own.
    pub scopes: Vec<Scope>,
    /// The parameters of lambdas and macros around what is being bound.
    pub locals: Vec<Local>,
    /// The parts of WITH that are in sight.
    pub ctes: Vec<Cte>,
    pub qualifiers: Qualifiers,
    /// The tables that were named.
    pub tables: Vec<String>,
    pub is_volatile: bool,
    /// Whether texts may have collations.
    pub has_collations: bool,
    /// Keys of groups that have a collation, and what they are grouped by.
    pub collated_keys: Vec<(Expr, Expr)>,
    /// Whether the rows depend on the order in which tables are read.
    pub depends_on_order: bool,
    /// What the columns of the last body are in its queries, if an ORDER BY asks for it.
    pub origins: Option<Vec<Origin>>,
    /// The depth of macros and definitions.
    pub level: usize,
    /// The numbers of parameters `?` and `$name`.
    numbers: ParameterNumbers,
    nodes: usize,
    /// The parts that aliases and macros stand for.
    copies: usize,
    /// The operators of the chains around what is being bound.
    links: usize,
    /// The scope where there is none.
    nothing: Scope,
}

impl<'a> Binder<'a> {
    fn new(world: World<'a>, options: &'a Options) -> Binder<'a> {
        Binder {
            world,
            options,
            scopes: vec![],
            locals: vec![],
            ctes: vec![],
            qualifiers: Qualifiers::default(),
            tables: vec![],
            is_volatile: false,
            has_collations: false,
            collated_keys: vec![],
            depends_on_order: false,
            origins: None,
            level: 0,
            numbers: ParameterNumbers::default(),
            nodes: 0,
            copies: 0,
            links: 0,
            nothing: Scope::empty(),
        }
    }

    /// The own scope of what is being bound.
    pub fn scope(&self) -> &Scope {
        self.scopes.last().unwrap_or(&self.nothing)
    }

    /// The columns over which expressions are typed.
    pub fn schema(&self) -> Arc<DFSchema> {
        self.scope().schema.clone()
    }

    /// Binds within a scope of its own.
    pub fn within<T>(&mut self, scope: Scope, rule: impl FnOnce(&mut Self) -> Result<T>) -> Result<(T, Scope)> {
        self.scopes.push(scope);
        let bound = rule(self);
        let scope = self.scopes.pop().unwrap_or_else(Scope::empty);
        Ok((bound?, scope))
    }

    /// Binds on a stack that is large enough, and counts.
    pub fn deeper<T>(&mut self, span: Span, rule: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        match self.level {
            0 => self.count(1, span)?,
            _ => self.count_copies(1, span)?,
        }
        stacker::maybe_grow(STACK_BYTES_LEFT, STACK_BYTES, || rule(self))
    }

    /// Counts parts of the statement.
    ///
    /// # Errors
    /// They are too many.
    pub fn count(&mut self, nodes: usize, span: Span) -> Result<()> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes <= NODES_MAX {
            return Ok(());
        }
        Err(too_complex(span, format!("the statement is too complex: it has more than {NODES_MAX} expressions")))
    }

    /// Binds a part of which this number of expressions is not counted.
    pub fn uncounted<T>(&mut self, nodes: usize, rule: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = self.nodes;
        let bound = rule(self);
        self.nodes = self.nodes.saturating_sub(nodes).max(before);
        bound
    }

    /// Counts parts that an alias or a macro stands for.
    fn count_copies(&mut self, parts: usize, span: Span) -> Result<()> {
        self.copies = self.copies.saturating_add(parts);
        if self.copies <= COPIES_MAX {
            return Ok(());
        }
        let message = format!(
            "the statement is too complex: its aliases and macros stand for more than {COPIES_MAX} expressions"
        );
        Err(too_complex(span, message).with_hint("use aliases and macros fewer times, or compute them in subqueries"))
    }

    /// Binds a chain of this number of operators, each of which is a level, within those of the chains around it.
    ///
    /// # Errors
    /// They are too many.
    pub fn linked<T>(&mut self, links: usize, span: Span, rule: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let around = self.links;
        if around + links > LINKS_MAX as usize {
            let message =
                format!("the statement is too complex: it nests too deeply (at most {LINKS_MAX} levels of operators)");
            let hint = "write long chains of values as x IN (…), or as rows of a table that is joined";
            return Err(too_complex(span, message).with_hint(hint));
        }
        self.links = around + links;
        let bound = rule(self);
        self.links = around;
        bound
    }

    /// Counts the parts of an expression that is used again.
    pub fn count_again(&mut self, expression: &Expr, span: Span) -> Result<()> {
        let mut parts = 0;
        expression
            .apply(|_| {
                parts += 1;
                Ok(TreeNodeRecursion::Continue)
            })
            .at(span)?;
        self.count_copies(parts, span)
    }

    /// Binds what a name stands for, within a limit of such names within each other. Its errors are at the name, because the
    /// places in what it stands for are those of another text.
    pub fn in_level<T>(&mut self, span: Span, rule: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.level >= LEVELS_MAX {
            let message = format!("macros call each other over more than {LEVELS_MAX} levels");
            return Err(invalid(span, message).with_hint("a macro cannot call itself"));
        }
        self.level += 1;
        let bound = rule(self);
        self.level -= 1;
        bound.map_err(|mut error| {
            error.span = span;
            error
        })
    }

    /// Notes that the query reads a table.
    pub fn note_table(&mut self, name: &str) {
        if !self.tables.iter().any(|known| known == name) {
            self.tables.push(name.to_owned());
        }
    }

    /// Gives the parameters `?` and `$name` their numbers, in the order of the text.
    fn number_parameters(&mut self, query: &tree::Query) -> Result<()> {
        let mut found = reading::parameters(query);
        found.sort_unstable_by_key(|(place, _)| *place);
        found.dedup_by_key(|(place, _)| *place);
        self.numbers = match &self.options.numbers {
            Some(numbers) => numbers.clone(),
            None => ParameterNumbers::of(found.iter().map(|(place, parameter)| (*place, parameter))),
        };
        let numbers = found.iter().filter_map(|(place, parameter)| self.numbers.number(parameter, *place));
        let (count, given) = (numbers.max().unwrap_or(0), self.options.parameters.len());
        if self.options.for_run && count > given {
            let message = format!("the statement has {count} parameters and was given {given}");
            return Err(invalid(query.span, message));
        }
        Ok(())
    }

    /// The number of a parameter.
    pub fn parameter_number(&self, parameter: &tree::Parameter, span: Span) -> Result<usize> {
        let found = match parameter {
            tree::Parameter::Number(number) if (1..=PARAMETERS_MAX).contains(number) => return Ok(*number as usize),
            tree::Parameter::Number(number) => {
                let message = format!("there is no parameter ${number}");
                let hint = format!("parameters have numbers from 1 to {PARAMETERS_MAX}");
                return Err(invalid(span, message).with_hint(hint));
            }
            other => self.numbers.number(other, span.start),
        };
        found.ok_or_else(|| invalid(span, "a macro has no parameters of statements"))
    }

    /// The fields of all parameters of a plan.
    fn parameters_of(&self, plan: &LogicalPlan) -> datafusion_common::Result<Vec<Option<FieldRef>>> {
        let declared = |parameter: &Parameter| match parameter {
            Parameter::Unknown => None,
            Parameter::Typed(field) => Some(field.clone()),
            Parameter::Value(value) => Some(Arc::new(Field::new("", value.data_type(), true))),
        };
        let mut all: Vec<Option<FieldRef>> = self.options.parameters.iter().map(declared).collect();
        for (id, field) in plan.get_parameter_fields()? {
            let Some(at) = id.trim_start_matches('$').parse::<usize>().ok().and_then(|id| id.checked_sub(1)) else {
                continue;
            };
            if all.len() <= at {
                all.resize(at + 1, None);
            }
            if let Some(known) = all.get_mut(at)
                && known.is_none()
            {
                *known = field.map(|field| Arc::new(Field::new("", field.data_type().clone(), true)));
            }
        }
        Ok(all)
    }
}
