//! Names of columns in a plan.

use std::collections::HashSet;

use datafusion_expr::Expr;

use crate::MARK;

/// Makes the names of a query's columns in the plan differ. The first of equal names keeps it.
#[derive(Debug, Default)]
pub(crate) struct Distinct {
    given: HashSet<String>,
}

impl Distinct {
    /// A name that was not given before, which begins with this one.
    pub fn next(&mut self, name: &str) -> String {
        let (mut own, mut at) = (name.to_owned(), self.given.len());
        while self.given.contains(&own) {
            own = format!("{name}{MARK}{at}");
            at += 1;
        }
        self.given.insert(own.clone());
        own
    }
}

/// The values of a projection with names in the plan that differ. A column that has its name already stays one.
pub(crate) fn named(values: Vec<(Expr, &str)>) -> Vec<Expr> {
    let mut names = Distinct::default();
    let given = |(value, name): (Expr, &str)| {
        let name = names.next(name);
        match &value {
            Expr::Column(column) if column.name == name => value,
            _ => value.unalias().alias(name),
        }
    };
    values.into_iter().map(given).collect()
}
