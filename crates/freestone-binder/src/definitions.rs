//! Functions that are defined by an expression over their parameters.

use freestone_sql::tree::{Over, SortKey};
use freestone_sql::{Span, tree};

use datafusion_expr::Expr;

use crate::binder::Binder;
use crate::calls::{Plain, clauses_of};
use crate::error::Result;
use crate::scopes::Local;
use crate::world::Definition;

/// The clauses of a call that go to the aggregates of its definition.
#[derive(Debug, Clone)]
pub(crate) struct Clauses {
    pub distinct: bool,
    pub order_by: Vec<SortKey>,
    pub ignore_nulls: Option<bool>,
    pub filter: Option<tree::Expr>,
    pub over: Option<Over>,
}

impl Binder<'_> {
    /// A call of a function that is defined by an expression.
    pub fn defined_call(&mut self, plain: &Plain) -> Result<Option<Expr>> {
        if plain.quoted || plain.arguments.iter().any(|argument| argument.name.is_some()) {
            return Ok(None);
        }
        let (functions, count) = (self.world.functions, plain.arguments.len());
        let found = [Some(plain.name.as_str()), functions.synonym(&plain.name)].into_iter().flatten();
        let found = found.filter_map(|name| Some((name, functions.definition(name, count)?))).next();
        let clauses = clauses_of(plain.call);
        let is_whole = |definition: &Definition| !definition.aggregates.is_empty() || clauses.is_none();
        let Some((name, mut definition)) = found.filter(|(_, definition)| is_whole(definition)) else {
            return Ok(None);
        };
        name_functions(&mut definition.value, name);
        if let Some(clauses) = &clauses {
            give_clauses(&mut definition.value, &definition.aggregates, clauses);
        }
        let mut values = vec![];
        for (name, argument) in definition.parameters.iter().zip(&plain.arguments) {
            values.push((name.clone(), self.expression(&argument.value)?));
        }
        self.with_arguments(values, plain.span, |binder| binder.expression(&definition.value)).map(Some)
    }

    /// Binds what a name stands for, with values for its parameters.
    pub fn with_arguments<T>(
        &mut self,
        values: Vec<(String, Expr)>,
        span: Span,
        rule: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let before = self.locals.len();
        let depth = self.scopes.len();
        self.locals.extend(values.into_iter().map(|(name, value)| Local { name, value, depth }));
        let bound = self.in_level(span, rule);
        self.locals.truncate(before);
        bound
    }
}

/// Puts the calls of a name in quotes: in the definition of that name they mean the function that it extends.
fn name_functions(value: &mut tree::Expr, name: &str) {
    tree::each_part_mut(value, &mut |part| {
        if let tree::ExprKind::Call(call) = &mut part.kind
            && let [only] = call.name.parts.as_mut_slice()
            && only.text == name
        {
            only.quoted = true;
        }
    });
}

/// Gives the aggregates of an expression the clauses of a call.
fn give_clauses(value: &mut tree::Expr, aggregates: &[String], clauses: &Clauses) {
    tree::each_part_mut(value, &mut |part| {
        let tree::ExprKind::Call(call) = &mut part.kind else { return };
        let is_one = call.name.parts.last().is_some_and(|name| aggregates.contains(&name.text));
        if !is_one {
            return;
        }
        call.distinct = clauses.distinct;
        call.order_by = clauses.order_by.clone();
        call.ignore_nulls = clauses.ignore_nulls;
        call.filter = clauses.filter.clone();
        call.over = clauses.over.clone();
    });
}
