//! Helpers for expressions of logical plans: changes, construction, and operands that must have a common type.

pub(crate) mod dictionary;
pub(crate) mod partial;
pub(crate) mod physical;
pub(crate) mod pieces;
pub(crate) mod watched;

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Between, Expr, LogicalPlan, Operator, binary_expr};

/// The node with its expressions changed from their leaves up; they keep their names. `change` is given what the expressions read.
pub(crate) fn changed(
    plan: LogicalPlan,
    change: impl Fn(Expr, &DFSchema) -> Transformed<Expr>,
) -> Result<Transformed<LogicalPlan>> {
    try_changed(plan, |expression, schema| Ok(change(expression, schema)))
}

/// As [`changed`], where a change can fail.
pub(crate) fn try_changed(
    plan: LogicalPlan,
    change: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expression| {
        let name = names.save(&expression);
        let changed = expression.transform_up(|e| change(e, &schema))?;
        Ok(changed.update_data(|e| name.restore(e)))
    })
}

/// The number of expressions that an expression consists of, itself included.
pub(crate) fn size(expression: &Expr) -> usize {
    let mut nodes = 0;
    let _ = expression.apply(|_| {
        nodes += 1;
        Ok(TreeNodeRecursion::Continue)
    });
    nodes
}

/// The parts joined by AND or OR as a balanced tree. A chain of thousands of parts would need as many stack frames in
/// every visit, and rules that search one operand within another would take quadratic time.
pub(crate) fn balanced(mut parts: Vec<Expr>, op: Operator) -> Option<Expr> {
    while parts.len() > 1 {
        let mut pairs = Vec::with_capacity(parts.len().div_ceil(2));
        let mut rest = parts.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => binary_expr(left, op, right),
                None => left,
            });
        }
        parts = pairs;
    }
    parts.pop()
}

/// Operands that have to be of one type.
pub(crate) struct OneType<'a> {
    pub operands: Vec<&'a mut Expr>,
    /// Whether they are compared, and not the results of an expression.
    pub compared: bool,
}

/// Functions whose arguments have one type.
pub(crate) const OF_ONE_TYPE: [&str; 5] = ["coalesce", "greatest", "least", "nullif", "nvl"];

/// The operands of an expression, together where they have to be of one type.
pub(crate) fn of_one_type(expression: &mut Expr) -> Vec<OneType<'_>> {
    let compared = |operands| OneType { operands, compared: true };
    let results = |operands| OneType { operands, compared: false };
    match expression {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => {
            vec![compared(vec![&mut binary.left, &mut binary.right])]
        }
        Expr::Between(Between { expr, low, high, .. }) => vec![compared(vec![expr, low, high])],
        Expr::InList(list) => vec![compared(std::iter::once(&mut *list.expr).chain(&mut list.list).collect())],
        Expr::Case(case) => {
            let (whens, thens): (Vec<_>, Vec<_>) =
                case.when_then_expr.iter_mut().map(|(when, then)| (&mut **when, &mut **then)).unzip();
            let operands = case.expr.iter_mut().map(|e| &mut **e).chain(whens).collect();
            let branches = thens.into_iter().chain(case.else_expr.iter_mut().map(|e| &mut **e)).collect();
            vec![compared(operands), results(branches)]
        }
        Expr::ScalarFunction(call) if OF_ONE_TYPE.contains(&call.func.name()) => {
            vec![results(call.args.iter_mut().collect())]
        }
        _ => vec![],
    }
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}
