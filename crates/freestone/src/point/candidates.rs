//! Statements that may be point statements, by their form. Every clause is named here: one that this does not know makes a
//! statement another.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast;
use freestone_sql::tree;

use crate::sql::spellings::{BY_NAME, OVERRIDING};
use crate::sql::visitor;

/// Whether a statement may be a point statement: recognizing it takes about as long as planning it.
pub(crate) fn is_candidate(sql: &ast::Statement) -> bool {
    let selection = match sql {
        ast::Statement::Query(query) => of_query(query),
        ast::Statement::Update(update) => of_update(update),
        ast::Statement::Delete(delete) => of_delete(delete),
        ast::Statement::Insert(insert) => return has_one_row(insert),
        _ => None,
    };
    selection.is_some_and(compares)
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

/// The condition of `SELECT … FROM table WHERE condition`.
fn of_query(query: &ast::Query) -> Option<&ast::Expr> {
    let ast::Query {
        with: None,
        body,
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks,
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators,
    } = query
    else {
        return None;
    };
    match body.as_ref() {
        ast::SetExpr::Select(select) if locks.is_empty() && pipe_operators.is_empty() => of_select(select),
        _ => None,
    }
}

fn of_select(select: &ast::Select) -> Option<&ast::Expr> {
    let ast::Select {
        select_token: _,
        optimizer_hints,
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: _,
        // Its plan says whether it consists of columns.
        projection: _,
        exclude: None,
        into: None,
        from,
        lateral_views,
        prewhere: None,
        selection,
        connect_by,
        group_by: ast::GroupByExpr::Expressions(keys, modifiers),
        cluster_by,
        distribute_by,
        sort_by,
        having: None,
        named_window,
        qualify: None,
        window_before_qualify: _,
        value_table_mode: None,
        flavor: _,
    } = select
    else {
        return None;
    };
    let has_nothing_else = optimizer_hints.is_empty()
        && lateral_views.is_empty()
        && connect_by.is_empty()
        && keys.is_empty()
        && modifiers.is_empty()
        && cluster_by.is_empty()
        && distribute_by.is_empty()
        && sort_by.is_empty()
        && named_window.is_empty();
    selection.as_ref().filter(|_| has_nothing_else && is_one_table(from))
}

fn of_update(update: &ast::Update) -> Option<&ast::Expr> {
    let ast::Update {
        update_token: _,
        optimizer_hints,
        table,
        // Its plan says which values it gives.
        assignments: _,
        from: None,
        selection,
        returning: _,
        output: None,
        or: None,
        order_by,
        limit: None,
    } = update
    else {
        return None;
    };
    let has_nothing_else = optimizer_hints.is_empty() && order_by.is_empty();
    selection.as_ref().filter(|_| has_nothing_else && is_table(table))
}

fn of_delete(delete: &ast::Delete) -> Option<&ast::Expr> {
    let ast::Delete {
        delete_token: _,
        optimizer_hints,
        tables,
        from: ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from),
        using: None,
        selection,
        returning: _,
        output: None,
        order_by,
        limit: None,
    } = delete
    else {
        return None;
    };
    let has_nothing_else = optimizer_hints.is_empty() && tables.is_empty() && order_by.is_empty();
    selection.as_ref().filter(|_| has_nothing_else && is_one_table(from))
}

fn is_one_table(from: &[ast::TableWithJoins]) -> bool {
    matches!(from, [table] if is_table(table))
}

/// Whether this is the name of a table, with another name for it or without. A call, such as that of an earlier version, is none.
fn is_table(table: &ast::TableWithJoins) -> bool {
    let ast::TableWithJoins { relation, joins } = table;
    let ast::TableFactor::Table {
        name: _,
        alias,
        args: None,
        with_hints,
        version: None,
        with_ordinality: false,
        partitions,
        json_path: None,
        sample: None,
        index_hints,
    } = relation
    else {
        return false;
    };
    let is_name = |alias: &ast::TableAlias| {
        let ast::TableAlias { explicit: _, name: _, columns, at } = alias;
        columns.is_empty() && at.is_none()
    };
    joins.is_empty()
        && with_hints.is_empty()
        && partitions.is_empty()
        && index_hints.is_empty()
        && alias.as_ref().is_none_or(is_name)
}

/// Whether an expression contains `… = …` in a conjunction, and no query or call.
fn compares(expression: &ast::Expr) -> bool {
    let mut compares = false;
    let refused = visitor::expressions(expression, &mut |part| match part {
        ast::Expr::BinaryOp { op: ast::BinaryOperator::Eq, .. } => {
            compares = true;
            ControlFlow::Continue(())
        }
        ast::Expr::Subquery(_) | ast::Expr::InSubquery { .. } | ast::Expr::Exists { .. } | ast::Expr::Function(_) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    compares && refused.is_continue()
}

fn has_one_row(insert: &ast::Insert) -> bool {
    let ast::Insert {
        insert_token: _,
        optimizer_hints,
        or: None,
        ignore: false,
        into: _,
        table: ast::TableObject::TableName(_),
        table_alias,
        columns,
        overwrite: false,
        source: _,
        assignments,
        partitioned: None,
        after_columns,
        has_table_keyword: _,
        on,
        returning: _,
        output: None,
        replace_into: false,
        priority: None,
        insert_alias: None,
        settings: None,
        format_clause: None,
        multi_table_insert_type: None,
        multi_table_into_clauses,
        multi_table_when_clauses,
        multi_table_else_clause: None,
    } = insert
    else {
        return false;
    };
    let is_by_name = table_alias.as_ref().is_some_and(|alias| alias.alias.value == BY_NAME);
    let overrides = columns.iter().any(|column| {
        column.0.last().and_then(|part| part.as_ident()).is_some_and(|column| column.value == OVERRIDING)
    });
    let has_nothing_else = optimizer_hints.is_empty()
        && assignments.is_empty()
        && after_columns.is_empty()
        && multi_table_into_clauses.is_empty()
        && multi_table_when_clauses.is_empty()
        && matches!(on, None | Some(ast::OnInsert::OnConflict(_)));
    has_nothing_else && !is_by_name && !overrides && values_of(insert).is_some()
}

/// The cells of `VALUES (…)` with one row.
pub(super) fn values_of(insert: &ast::Insert) -> Option<&[ast::Expr]> {
    let ast::Query {
        with: None,
        body,
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks,
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators,
    } = insert.source.as_deref()?
    else {
        return None;
    };
    match body.as_ref() {
        ast::SetExpr::Values(values) if locks.is_empty() && pipe_operators.is_empty() => match values.rows.as_slice() {
            [row] => Some(row.content.as_slice()),
            _ => None,
        },
        _ => None,
    }
}
