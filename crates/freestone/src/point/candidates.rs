//! Statements that may be point statements, by their form. Every clause is named here: one that this does not know makes a
//! statement another.

use freestone_sql::tree::{self, Write};

use crate::sql::written::Written;

/// Whether a statement may be a point statement: recognizing it takes about as long as planning it.
pub(crate) fn is_candidate(written: &Written) -> bool {
    match written.write() {
        Ok(Write::Insert(insert)) => has_one_row(insert),
        // Its plan says which values it gives.
        Ok(Write::Update(update)) => has_one_table(update.with.as_ref(), &update.from, update.condition.as_ref()),
        Ok(Write::Delete(delete)) => has_one_table(delete.with.as_ref(), &delete.using, delete.condition.as_ref()),
        Ok(Write::Merge(_)) => false,
        Err(_) => written.query().is_ok_and(|(query, _)| may_read_row(query)),
    }
}

/// Whether a query may be one that reads the row of a key.
pub(crate) fn may_read_row(query: &tree::Query) -> bool {
    let tree::Query {
        with: None,
        body: tree::QueryBody::Select(select),
        order_by: None,
        limit: None,
        offset: None,
        span: _,
    } = query
    else {
        return false;
    };
    let tree::Select {
        distinct: None,
        items: _,
        from,
        condition: Some(condition),
        group_by: tree::GroupBy::None,
        having: None,
        windows,
        qualify: None,
        sample: None,
        span: _,
    } = &**select
    else {
        return false;
    };
    let is_name = |table: &tree::Table| {
        matches!(table.kind, tree::TableKind::Named { version: None, .. }) && table.sample.is_none()
    };
    windows.is_empty() && matches!(from.as_slice(), [table] if is_name(table)) && has_equality(condition)
}

/// Whether an expression is `… = …`, or a conjunction with it.
fn has_equality(condition: &tree::Expr) -> bool {
    let tree::ExprKind::Chain { first, rest } = &condition.kind else { return false };
    rest.iter().any(|link| match link.operator {
        tree::BinaryOperator::Eq => true,
        tree::BinaryOperator::And => has_equality(&link.operand),
        _ => false,
    }) || rest.iter().all(|link| link.operator == tree::BinaryOperator::And) && has_equality(first)
}

/// Whether rows are only those of the table that a statement changes, which meet an equality.
fn has_one_table(with: Option<&tree::With>, others: &[tree::Table], condition: Option<&tree::Expr>) -> bool {
    with.is_none() && others.is_empty() && condition.is_some_and(has_equality)
}

fn has_one_row(insert: &tree::Insert) -> bool {
    let tree::Insert {
        with: None,
        table: _,
        alias: None,
        columns: _,
        by_name: false,
        overriding_system: None,
        rows: Some(rows),
        on_conflict: None | Some(tree::OnConflict::Nothing(_) | tree::OnConflict::Update { .. }),
        returning: _,
    } = insert
    else {
        return false;
    };
    let tree::Query { with: None, body, order_by: None, limit: None, offset: None, span: _ } = &**rows else {
        return false;
    };
    matches!(body, tree::QueryBody::Values(rows) if rows.len() == 1)
}
