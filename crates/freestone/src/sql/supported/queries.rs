//! Queries, their tables, and expressions.

use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArguments, GroupByExpr, JoinOperator, LimitClause, OrderByKind, Query, Select, SelectItem,
    SetExpr, TableFactor,
};

use super::{none_of, refused};
use crate::error::{Error, ErrorKind, Result};

/// The maximum number of expressions in one SELECT: planning takes time in proportion to its square.
const ITEMS_MAX: usize = 10_000;
/// The maximum number of grouping sets, which is PostgreSQL's.
const GROUPING_SETS_MAX: usize = 4096;

pub(super) fn query(query: &Query) -> Result<()> {
    let Query { with, body, order_by, limit_clause, fetch, locks, for_clause, settings, format_clause, pipe_operators } =
        query;
    none_of(&[
        // Each was rewritten before, but the combination cannot be.
        (fetch.as_ref().is_some_and(|fetch| fetch.with_ties || fetch.percent), "FETCH … PERCENT WITH TIES"),
        (fetch.is_some() && limit_clause.as_ref().is_some_and(limits), "FETCH together with LIMIT"),
        (!locks.is_empty(), "FOR UPDATE and FOR SHARE within a statement: locking of rows"),
        (for_clause.is_some(), "FOR XML, FOR JSON and FOR BROWSE"),
        (settings.is_some(), "SETTINGS in a query"),
        (format_clause.is_some(), "FORMAT in a query"),
        (!pipe_operators.is_empty(), "|>"),
    ])?;
    if let Some(with) = with {
        let ast::With { with_token: _, recursive: _, cte_tables } = with;
        for cte in cte_tables {
            let ast::Cte { alias, query: _, from, materialized: _, closing_paren_token: _ } = cte;
            none_of(&[(from.is_some(), "FROM behind a WITH's query")])?;
            self::alias(Some(alias))?;
        }
    }
    if let Some(order) = order_by {
        let ast::OrderBy { kind, interpolate } = order;
        none_of(&[(interpolate.is_some(), "INTERPOLATE")])?;
        if let OrderByKind::Expressions(keys) = kind {
            order_keys(keys)?;
        }
    }
    match limit_clause {
        Some(LimitClause::LimitOffset { limit: _, offset: _, limit_by }) => {
            none_of(&[(!limit_by.is_empty(), "LIMIT … BY")])?;
        }
        Some(LimitClause::OffsetCommaLimit { offset: _, limit: _ }) | None => {}
    }
    self::body(body)
}

fn limits(clause: &LimitClause) -> bool {
    !matches!(clause, LimitClause::LimitOffset { limit: None, .. })
}

fn body(body: &SetExpr) -> Result<()> {
    match body {
        SetExpr::Select(select) => self::select(select),
        SetExpr::SetOperation { left, op: _, set_quantifier: _, right } => {
            self::body(left)?;
            self::body(right)
        }
        // Nested queries are visited separately.
        SetExpr::Query(_) | SetExpr::Values(_) | SetExpr::Table(_) => Ok(()),
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
            Err(refused("a statement that writes within a query")
                .with_hint("write it in the WITH of a whole statement"))
        }
    }
}

fn select(select: &Select) -> Result<()> {
    let Select {
        select_token: _,
        optimizer_hints,
        distinct: _,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection,
        exclude,
        into,
        from,
        lateral_views,
        prewhere,
        selection: _,
        connect_by,
        group_by,
        cluster_by,
        distribute_by,
        sort_by,
        having: _,
        named_window,
        qualify: _,
        window_before_qualify: _,
        value_table_mode,
        flavor: _,
    } = select;
    if into.is_some() {
        return Err(refused("SELECT … INTO").with_hint("use CREATE TABLE … AS SELECT …"));
    }
    none_of(&[
        (!optimizer_hints.is_empty(), "a hint for the optimizer"),
        (select_modifiers.as_ref().is_some_and(ast::SelectModifiers::is_any_set), "a modifier behind SELECT"),
        (top.is_some(), "TOP"),
        (exclude.is_some(), "EXCLUDE behind the columns"),
        (!lateral_views.is_empty(), "LATERAL VIEW"),
        (prewhere.is_some(), "PREWHERE"),
        (!connect_by.is_empty(), "CONNECT BY"),
        (!cluster_by.is_empty(), "CLUSTER BY"),
        (!distribute_by.is_empty(), "DISTRIBUTE BY"),
        (!sort_by.is_empty(), "SORT BY"),
        (value_table_mode.is_some(), "SELECT AS STRUCT and AS VALUE"),
    ])?;
    check_counts(projection.len(), group_by)?;
    let (GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers)) = group_by;
    none_of(&[(!modifiers.is_empty(), "WITH ROLLUP, CUBE and TOTALS behind GROUP BY")])
        .map_err(|error| error.with_hint("write GROUP BY ROLLUP (…) or CUBE (…)"))?;
    projection.iter().try_for_each(item)?;
    from.iter().flat_map(|tables| &tables.joins).try_for_each(join)?;
    for ast::NamedWindowDefinition(_, window) in named_window {
        if let ast::NamedWindowExpr::WindowSpec(window) = window {
            self::window(window)?;
        }
    }
    Ok(())
}

/// Refuses what takes too long to plan or to group by.
fn check_counts(items: usize, group_by: &GroupByExpr) -> Result<()> {
    let too_many = |count: String, most: usize, hint: &str| {
        let message = format!("the statement is too complex: {count} (at most {most})");
        Err(Error::new(ErrorKind::Resource, message).with_hint(hint))
    };
    if items > ITEMS_MAX {
        return too_many(
            format!("a SELECT has {items} expressions"),
            ITEMS_MAX,
            "select lists, or in several statements",
        );
    }
    let GroupByExpr::Expressions(keys, _) = group_by else { return Ok(()) };
    let sets = keys.iter().map(grouping_sets).fold(1, u64::saturating_mul);
    if sets > GROUPING_SETS_MAX as u64 {
        let hint = "name the sets that are needed in GROUPING SETS (…)";
        return too_many(format!("GROUP BY has {sets} grouping sets"), GROUPING_SETS_MAX, hint);
    }
    Ok(())
}

/// The number of grouping sets of one element of GROUP BY.
fn grouping_sets(key: &Expr) -> u64 {
    match key {
        Expr::Cube(keys) => u32::try_from(keys.len()).ok().and_then(|keys| 2u64.checked_pow(keys)).unwrap_or(u64::MAX),
        Expr::Rollup(keys) => keys.len() as u64 + 1,
        Expr::GroupingSets(sets) => {
            let of_set = |set: &Vec<Expr>| set.iter().map(grouping_sets).fold(1, u64::saturating_mul);
            sets.iter().map(of_set).fold(0, u64::saturating_add)
        }
        _ => 1,
    }
}

fn item(item: &SelectItem) -> Result<()> {
    match item {
        SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { expr: _, alias: _ } => Ok(()),
        SelectItem::ExprWithAliases { expr: _, aliases: _ } => Err(refused("one column under several names")),
        SelectItem::QualifiedWildcard(kind, options) => {
            let is_value = matches!(kind, ast::SelectItemQualifiedWildcardKind::Expr(_));
            none_of(&[(is_value, "* behind an expression")])?;
            wildcard(options)
        }
        SelectItem::Wildcard(options) => wildcard(options),
    }
}

fn wildcard(options: &ast::WildcardAdditionalOptions) -> Result<()> {
    let ast::WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike: _,
        opt_exclude: _,
        opt_except: _,
        opt_replace: _,
        opt_rename: _,
        opt_alias,
    } = options;
    none_of(&[(opt_alias.is_some(), "a name behind *")])
}

fn join(join: &ast::Join) -> Result<()> {
    // GLOBAL represents ASOF, and STRAIGHT_JOIN represents POSITIONAL JOIN.
    let ast::Join { relation: _, global: _, join_operator } = join;
    match join_operator {
        JoinOperator::Join(_)
        | JoinOperator::Inner(_)
        | JoinOperator::Left(_)
        | JoinOperator::LeftOuter(_)
        | JoinOperator::Right(_)
        | JoinOperator::RightOuter(_)
        | JoinOperator::FullOuter(_)
        | JoinOperator::CrossJoin(ast::JoinConstraint::None)
        | JoinOperator::LeftSemi(_)
        | JoinOperator::RightSemi(_)
        | JoinOperator::LeftAnti(_)
        | JoinOperator::RightAnti(_)
        | JoinOperator::StraightJoin(_) => Ok(()),
        JoinOperator::CrossJoin(_) => Err(refused("CROSS JOIN with a condition").with_hint("write JOIN … ON")),
        JoinOperator::Semi(_) => Err(refused("SEMI JOIN").with_hint("write LEFT SEMI JOIN or RIGHT SEMI JOIN")),
        JoinOperator::Anti(_) => Err(refused("ANTI JOIN").with_hint("write LEFT ANTI JOIN or RIGHT ANTI JOIN")),
        JoinOperator::CrossApply | JoinOperator::OuterApply => {
            Err(refused("APPLY").with_hint("write JOIN LATERAL (…) ON true"))
        }
        JoinOperator::AsOf { match_condition: _, constraint: _ } => {
            Err(refused("MATCH_CONDITION").with_hint("write a ASOF JOIN b ON a.k = b.k AND a.t >= b.t"))
        }
        JoinOperator::ArrayJoin | JoinOperator::LeftArrayJoin | JoinOperator::InnerArrayJoin => {
            Err(refused("ARRAY JOIN").with_hint("write CROSS JOIN UNNEST(…)"))
        }
    }
}

fn alias(alias: Option<&ast::TableAlias>) -> Result<()> {
    let Some(ast::TableAlias { explicit: _, name: _, columns, at }) = alias else { return Ok(()) };
    none_of(&[
        (at.is_some(), "AT behind a table's name"),
        (columns.iter().any(|column| column.data_type.is_some()), "a type in a list of columns"),
    ])
}

pub(super) fn factor(factor: &TableFactor) -> Result<()> {
    match factor {
        TableFactor::Table {
            name: _,
            alias,
            args,
            with_hints,
            version,
            with_ordinality,
            partitions,
            json_path,
            sample,
            index_hints,
        } => {
            none_of(&[
                (args.as_ref().is_some_and(|args| args.settings.is_some()), "SETTINGS of a table function"),
                (!with_hints.is_empty(), "WITH (…) behind a table's name"),
                (version.is_some(), "a table's version"),
                (*with_ordinality && args.is_none(), "WITH ORDINALITY behind a table's name"),
                (!partitions.is_empty(), "PARTITION behind a table's name"),
                (json_path.is_some(), "a path behind a table's name"),
                (sample.is_some(), "TABLESAMPLE"),
                (!index_hints.is_empty(), "a hint for an index"),
            ])?;
            self::alias(alias.as_ref())
        }
        TableFactor::Derived { lateral: _, subquery: _, alias, sample } => {
            none_of(&[(sample.is_some(), "TABLESAMPLE")])?;
            self::alias(alias.as_ref())
        }
        TableFactor::Function { lateral: _, name: _, args: _, with_ordinality: _, alias } => {
            self::alias(alias.as_ref())
        }
        TableFactor::UNNEST { alias, array_exprs: _, with_offset, with_offset_alias: _, with_ordinality: _ } => {
            none_of(&[(*with_offset, "WITH OFFSET")])?;
            self::alias(alias.as_ref())
        }
        TableFactor::NestedJoin { table_with_joins, alias } => {
            table_with_joins.joins.iter().try_for_each(join)?;
            self::alias(alias.as_ref())
        }
        TableFactor::TableFunction { .. } => Err(refused("TABLE(…)").with_hint("name the function itself in FROM")),
        TableFactor::JsonTable { .. } => Err(refused("JSON_TABLE")),
        TableFactor::OpenJsonTable { .. } => Err(refused("OPENJSON")),
        TableFactor::Pivot { .. } => Err(refused("PIVOT").with_hint("write sum(…) FILTER (WHERE …) for each column")),
        TableFactor::Unpivot { .. } => Err(refused("UNPIVOT").with_hint("write UNION ALL of the columns")),
        TableFactor::MatchRecognize { .. } => Err(refused("MATCH_RECOGNIZE")),
        TableFactor::XmlTable { .. } => Err(refused("XMLTABLE")),
        TableFactor::SemanticView { .. } => Err(refused("SEMANTIC_VIEW")),
    }
}

fn order_keys(keys: &[ast::OrderByExpr]) -> Result<()> {
    keys.iter().try_for_each(|key| {
        let ast::OrderByExpr { expr: _, options: _, with_fill } = key;
        none_of(&[(with_fill.is_some(), "WITH FILL")])
    })
}

fn window(window: &ast::WindowSpec) -> Result<()> {
    let ast::WindowSpec { window_name: _, partition_by: _, order_by, window_frame: _ } = window;
    order_keys(order_by)
}

fn function(call: &ast::Function) -> Result<()> {
    let ast::Function {
        name: _,
        uses_odbc_syntax: _,
        parameters,
        args,
        filter: _,
        null_treatment: _,
        over,
        within_group,
    } = call;
    let is_query = matches!(args, FunctionArguments::Subquery(_));
    none_of(&[
        (!matches!(parameters, FunctionArguments::None), "a second list of arguments"),
        (is_query, "a query as a function's argument without parentheses of its own"),
    ])?;
    if let FunctionArguments::List(list) = args {
        let ast::FunctionArgumentList { duplicate_treatment: _, args: _, clauses } = list;
        for clause in clauses {
            use ast::FunctionArgumentClause as Clause;
            match clause {
                Clause::IgnoreOrRespectNulls(_) => {}
                Clause::OrderBy(keys) => order_keys(keys)?,
                Clause::Limit(_) => return Err(refused("LIMIT in a function")),
                Clause::OnOverflow(_) => return Err(refused("ON OVERFLOW")),
                Clause::Having(_) => return Err(refused("HAVING in a function")),
                Clause::Separator(_) => return Err(refused("SEPARATOR").with_hint("write string_agg(value, ', ')")),
                Clause::JsonNullClause(_) | Clause::JsonReturningClause(_) => {
                    return Err(refused("a clause of JSON functions"));
                }
            }
        }
    }
    order_keys(within_group)?;
    match over {
        Some(ast::WindowType::WindowSpec(window)) => self::window(window),
        Some(ast::WindowType::NamedWindow(_)) | None => Ok(()),
    }
}

/// Refuses forms of expressions that are not planned. The forms that are planned are destructured as well, since their
/// fields may be refused.
pub(super) fn expression(expr: &Expr) -> Result<()> {
    match expr {
        Expr::Function(call) => function(call),
        Expr::Cast { kind: _, expr: _, data_type: _, array, format } => {
            none_of(&[(*array, "CAST (… AS … ARRAY)"), (format.is_some(), "FORMAT in a CAST")])
        }
        Expr::Like { any, .. } | Expr::ILike { any, .. } => none_of(&[(*any, "LIKE ANY")]),
        Expr::Ceil { expr: _, field } | Expr::Floor { expr: _, field } => {
            let plain = matches!(field, ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime));
            none_of(&[(!plain, "CEIL and FLOOR to a unit or scale")])
                .map_err(|error| error.with_hint("write date_trunc(…) or round(…)"))
        }
        Expr::IsNormalized { .. } => Err(refused("IS NORMALIZED")),
        Expr::InUnnest { .. } => Err(refused("IN UNNEST").with_hint("write x = ANY(list)")),
        Expr::RLike { .. } => Err(refused("RLIKE and REGEXP").with_hint("write x ~ 'pattern'")),
        Expr::Convert { .. } => Err(refused("CONVERT").with_hint("write CAST (x AS type)")),
        Expr::Collate { .. } => Err(refused("COLLATE")),
        Expr::Prefixed { prefix, value: _ } => Err(refused(&format!("a value that {prefix} stands before"))),
        Expr::MatchAgainst { .. } => Err(refused("MATCH … AGAINST")),
        Expr::OuterJoin(_) => Err(refused("(+)").with_hint("write LEFT JOIN … ON")),
        Expr::Prior(_) => Err(refused("PRIOR")),
        Expr::MemberOf(_) => Err(refused("MEMBER OF").with_hint("write x = ANY(list)")),
        Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::CompoundFieldAccess { .. }
        | Expr::JsonAccess { .. }
        | Expr::Named { .. }
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..)
        | Expr::InList { .. }
        | Expr::InSubquery { .. }
        | Expr::Between { .. }
        | Expr::BinaryOp { .. }
        | Expr::SimilarTo { .. }
        | Expr::AnyOp { .. }
        | Expr::AllOp { .. }
        | Expr::UnaryOp { .. }
        | Expr::AtTimeZone { .. }
        | Expr::Extract { .. }
        | Expr::Position { .. }
        | Expr::Substring { .. }
        | Expr::Trim { .. }
        | Expr::Overlay { .. }
        | Expr::Nested(_)
        | Expr::Value(_)
        | Expr::TypedString(_)
        | Expr::Case { .. }
        | Expr::Exists { .. }
        | Expr::Subquery(_)
        | Expr::GroupingSets(_)
        | Expr::Cube(_)
        | Expr::Rollup(_)
        | Expr::Tuple(_)
        | Expr::Struct { .. }
        | Expr::Dictionary(_)
        | Expr::Map(_)
        | Expr::Array(_)
        | Expr::Interval(_)
        | Expr::Wildcard(_)
        | Expr::QualifiedWildcard(..)
        | Expr::Lambda(_) => Ok(()),
    }
}
