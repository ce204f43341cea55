//! `USING` and `NATURAL`, and JOINs without a condition.
//!
//! The merged column of a join is the left column for INNER and LEFT, the right column for RIGHT, and COALESCE of both
//! for FULL. DataFusion uses one side's column for all of them: `*` of a LEFT join shows the right one, and in WHERE
//! a merged column is ambiguous. So all joins with USING or NATURAL are rewritten with ON before planning, and names of
//! merged columns are replaced by these expressions. If the columns of a table are not known, such as those of a table function without a column list, the
//! join is refused.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Expr, GroupByExpr, Ident, JoinConstraint, JoinOperator, ObjectName, OrderBy, OrderByKind, Query, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;

use crate::error::{Error, Result};
use crate::sql::dialect::SqlDialect;
use crate::sql::names::{Columns, Factored, folded};
use crate::sql::{fragments, visitor};

/// Refuses `a JOIN b` without ON or USING. CROSS JOIN returns all pairs.
pub(crate) fn check(sql: &impl ast::Visit) -> Result<()> {
    struct Conditions;
    impl ast::Visitor for Conditions {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            match has_open_join(&query.body) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    match visitor::visit(sql, &mut Conditions) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::syntax("syntax error: a JOIN has no condition")
            .with_hint("write ON or USING behind it, or CROSS JOIN for all pairs of rows")),
    }
}

fn has_open_join(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => select.from.iter().any(is_open),
        SetExpr::SetOperation { left, right, .. } => has_open_join(left) || has_open_join(right),
        _ => false,
    }
}

fn is_open(tables: &TableWithJoins) -> bool {
    let nested = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => is_open(table_with_joins),
        _ => false,
    };
    let open = |join: &ast::Join| matches!(constraint(&join.join_operator), Some(JoinConstraint::None));
    nested(&tables.relation) || tables.joins.iter().any(|join| open(join) || nested(&join.relation))
}

pub(crate) fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    use JoinOperator::*;
    match operator {
        Join(c) | Inner(c) | Left(c) | LeftOuter(c) | Right(c) | RightOuter(c) | FullOuter(c) => Some(c),
        _ => None,
    }
}

pub(crate) fn constraint_mut(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    use JoinOperator::*;
    match operator {
        Join(c) | Inner(c) | Left(c) | LeftOuter(c) | Right(c) | RightOuter(c) | FullOuter(c) => Some(c),
        _ => None,
    }
}

/// Writes `(a JOIN b …) JOIN c …` as `a JOIN b … JOIN c …`, which is the same, where the joins within merge columns, and
/// `(a JOIN b …) AS c` as `(SELECT * FROM a JOIN b …) AS c`.
///
/// # Errors
/// None: only what makes a query of parts can fail.
pub(crate) fn flatten(tables: &mut TableWithJoins) -> Result<()> {
    while merges(tables)
        && let TableFactor::NestedJoin { table_with_joins, alias: None } = &mut tables.relation
    {
        let TableWithJoins { relation, joins } = (**table_with_joins).clone();
        tables.relation = relation;
        tables.joins.splice(0..0, joins);
    }
    let factors = std::iter::once(&mut tables.relation).chain(tables.joins.iter_mut().map(|join| &mut join.relation));
    for factor in factors {
        if let TableFactor::NestedJoin { table_with_joins, alias: alias @ Some(_) } = factor
            && merges(table_with_joins)
        {
            let mut subquery = fragments::bare_query()?;
            if let SetExpr::Select(select) = subquery.body.as_mut() {
                select.projection = vec![SelectItem::Wildcard(Default::default())];
                select.from = vec![(**table_with_joins).clone()];
            }
            *factor = TableFactor::Derived { lateral: false, subquery, alias: alias.take(), sample: None };
        }
    }
    Ok(())
}

/// Writes joins by USING and NATURAL with ON. `known` are the tables of each item of FROM.
///
/// # Errors
/// The columns of a table are needed and not known.
pub(crate) fn rewrite(
    select: &mut Select,
    order: Option<&mut OrderBy>,
    known: &[Vec<Factored>],
    named: &dyn Fn(&ObjectName) -> Columns,
) -> Result<()> {
    if !select.from.iter().any(merges) {
        return Ok(());
    }
    let before = select.clone();
    let is_star = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_));
    // DataFusion resolves names of merged columns to the left one.
    let may_stay = !before.projection.iter().any(is_star) && !before.from.iter().any(keeps_right);
    match rewritten(select, order, known, named) {
        Err(Unresolved::Ambiguous(name)) => return Err(ambiguous(&name)),
        Ok(true) | Err(Unresolved::Unknown) if may_stay => {
            *select = before;
            return Ok(());
        }
        Ok(_) => return Ok(()),
        Err(Unresolved::Unknown) => {}
    }
    Err(Error::unsupported("a JOIN with USING or NATURAL over a table whose columns are not known")
        .with_hint("write the join with ON, or give the table a list of columns: f(…) AS t (a, b)"))
}

/// Why a name in USING is not one column of each side.
enum Unresolved {
    /// The columns of a table are known only after planning, or none has the name.
    Unknown,
    /// Several tables of one side have the column.
    Ambiguous(String),
}

fn ambiguous(name: &str) -> Error {
    Error::invalid(format!("column {name} of USING could come from several tables of one side"))
        .with_hint("write the join with ON, and the tables' names before the columns")
}

/// Whether a FROM has a RIGHT or FULL join.
fn keeps_right(tables: &TableWithJoins) -> bool {
    let is_right = |join: &ast::Join| {
        matches!(join.join_operator, JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_))
    };
    tables.joins.iter().any(is_right) || nested(tables).any(keeps_right)
}

/// Returns whether subqueries use a merged column by its name alone.
fn rewritten(
    select: &mut Select,
    order: Option<&mut OrderBy>,
    known: &[Vec<Factored>],
    named: &dyn Fn(&ObjectName) -> Columns,
) -> Result<bool, Unresolved> {
    let mut from = Vec::new();
    for (tables, known) in select.from.iter_mut().zip(known) {
        from.push(joined(tables, known, named)?);
    }
    let names = Names { merged: from.iter().flat_map(Joined::merged).collect(), named };
    let mut items = Vec::new();
    let mut is_left = false;
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(options) if options == Default::default() => {
                for joined in &from {
                    joined.expand(&mut items);
                }
            }
            SelectItem::Wildcard(_) => return Err(Unresolved::Unknown),
            SelectItem::UnnamedExpr(before) => {
                let mut expr = before.clone();
                is_left |= replace(&mut expr, &names);
                items.push(match (expr == before, before) {
                    (true, before) => SelectItem::UnnamedExpr(before),
                    (false, Expr::Identifier(name)) => SelectItem::ExprWithAlias { expr, alias: name },
                    (false, before) => {
                        let alias = Ident::with_quote('"', before.to_string().replace('"', ""));
                        SelectItem::ExprWithAlias { expr, alias }
                    }
                });
            }
            mut other => {
                is_left |= replace(&mut other, &names);
                items.push(other);
            }
        }
    }
    select.projection = items;
    is_left |= replace(&mut select.selection, &names);
    is_left |= replace(&mut select.having, &names);
    is_left |= replace(&mut select.qualify, &names);
    is_left |= replace(&mut select.distinct, &names);
    is_left |= replace(&mut select.named_window, &names);
    if let GroupByExpr::Expressions(..) = select.group_by {
        is_left |= replace(&mut select.group_by, &names);
    }
    if let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = order {
        let named: Vec<String> = select.projection.iter().filter_map(output_name).collect();
        for key in keys {
            // In ORDER BY, an output column takes precedence over a column of a table.
            let is_output = matches!(&key.expr, Expr::Identifier(name) if named.contains(&folded(name)));
            if !is_output {
                is_left |= replace(key, &names);
            }
        }
    }
    Ok(is_left)
}

/// Rewrites the joins of one item of FROM with ON.
fn joined(
    tables: &mut TableWithJoins,
    known: &[Factored],
    named: &dyn Fn(&ObjectName) -> Columns,
) -> Result<Joined, Unresolved> {
    let mut known = known.iter();
    let mut left = side(&mut tables.relation, known.next().ok_or(Unresolved::Unknown)?, named)?;
    for join in &mut tables.joins {
        let mut right = side(&mut join.relation, known.next().ok_or(Unresolved::Unknown)?, named)?;
        let keeps = match join.join_operator {
            JoinOperator::FullOuter(_) => Keeps::Both,
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => Keeps::Right,
            _ => Keeps::Left,
        };
        let Some(constraint) = constraint_mut(&mut join.join_operator) else {
            if !matches!(join.join_operator, JoinOperator::CrossJoin(_)) {
                return Err(Unresolved::Unknown);
            }
            left.parts.append(&mut right.parts);
            continue;
        };
        let names: Vec<Ident> = match constraint {
            JoinConstraint::Using(names) => {
                let idents = names.iter().map(|name| name.0.last()?.as_ident().cloned());
                idents.collect::<Option<_>>().ok_or(Unresolved::Unknown)?
            }
            JoinConstraint::Natural => left.common(&right).ok_or(Unresolved::Unknown)?,
            other => {
                left.parts.append(&mut right.parts);
                replace(other, &Names { merged: left.merged().collect(), named });
                continue;
            }
        };
        let (mut condition, mut merged) = (None, Vec::new());
        for name in names {
            let mut column = left.take(&name)?;
            let mut other = right.take(&name)?;
            let equal = parsed(&format!("{} = {}", column.expr, other.expr)).ok_or(Unresolved::Unknown)?;
            condition = Some(match condition {
                None => equal,
                Some(before) => parsed(&format!("{before} AND {equal}")).ok_or(Unresolved::Unknown)?,
            });
            column.expr = match keeps {
                Keeps::Both => {
                    parsed(&format!("coalesce({}, {})", column.expr, other.expr)).ok_or(Unresolved::Unknown)?
                }
                Keeps::Right => other.expr,
                Keeps::Left => column.expr,
            };
            column.owners.append(&mut other.owners);
            merged.push(Part::Merged(column));
        }
        // NATURAL without a common column joins all pairs.
        *constraint = JoinConstraint::On(condition.or_else(|| parsed("true")).ok_or(Unresolved::Unknown)?);
        left.parts.splice(0..0, merged);
        left.parts.append(&mut right.parts);
    }
    Ok(left)
}

/// The sides of which a join keeps all rows; LEFT stands for none, too.
#[derive(Clone, Copy)]
enum Keeps {
    Left,
    Right,
    Both,
}

/// One side of a join: a table, or a join in parentheses.
fn side(
    factor: &mut TableFactor,
    known: &Factored,
    named: &dyn Fn(&ObjectName) -> Columns,
) -> Result<Joined, Unresolved> {
    if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
        return joined(table_with_joins, &known.within, named);
    }
    let alias = table_name(factor).ok_or(Unresolved::Unknown)?;
    let table = Factor { alias, columns: known.columns.clone() };
    Ok(Joined { parts: vec![Part::Table(table)] })
}

/// The name by which expressions refer to a table.
pub(crate) fn table_name(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. } => Some(alias.name.clone()),
        TableFactor::Table { name, args: None, .. } => name.0.last()?.as_ident().cloned(),
        _ => None,
    }
}

/// One table of a FROM.
struct Factor {
    alias: Ident,
    columns: Columns,
}

/// A column that joins have merged.
struct Merged {
    name: String,
    ident: Ident,
    expr: Expr,
    /// The tables whose columns are merged.
    owners: Vec<String>,
}

impl Merged {
    fn of(name: &Ident, owner: &Ident) -> Merged {
        let expr = qualified(owner, name);
        Merged { name: folded(name), ident: name.clone(), expr, owners: vec![owner.value.clone()] }
    }
}

/// What `*` stands for, in order.
enum Part {
    Merged(Box<Merged>),
    /// The columns of a table that are not merged.
    Table(Factor),
}

struct Joined {
    parts: Vec<Part>,
}

impl Joined {
    fn merged(&self) -> impl Iterator<Item = &Merged> {
        self.parts.iter().filter_map(|part| match part {
            Part::Merged(merged) => Some(merged.as_ref()),
            Part::Table(_) => None,
        })
    }

    fn tables(&self) -> impl Iterator<Item = &Factor> {
        self.parts.iter().filter_map(|part| match part {
            Part::Table(table) => Some(table),
            Part::Merged(_) => None,
        })
    }

    /// Takes a column of USING out: one that is merged already, or that of a table.
    fn take(&mut self, name: &Ident) -> Result<Box<Merged>, Unresolved> {
        let is_it = |part: &Part| matches!(part, Part::Merged(merged) if merged.name == folded(name));
        if let Some(at) = self.parts.iter().position(is_it)
            && let Part::Merged(merged) = self.parts.remove(at)
        {
            return Ok(merged);
        }
        Ok(Box::new(Merged::of(name, self.owner(&folded(name))?)))
    }

    /// The only table that has a column.
    fn owner(&self, name: &str) -> Result<&Ident, Unresolved> {
        let tables: Vec<&Factor> = self.tables().collect();
        if let [only] = tables.as_slice() {
            return Ok(&only.alias);
        }
        let mut found = None;
        for table in tables {
            let columns = table.columns.as_ref().ok_or(Unresolved::Unknown)?;
            if columns.iter().any(|column| column == name) && found.replace(&table.alias).is_some() {
                return Err(Unresolved::Ambiguous(name.to_owned()));
            }
        }
        found.ok_or(Unresolved::Unknown)
    }

    /// The names of all columns.
    fn names(&self) -> Option<Vec<&String>> {
        let mut names: Vec<&String> = self.merged().map(|merged| &merged.name).collect();
        for table in self.tables() {
            names.extend(table.columns.as_ref()?.iter());
        }
        Some(names)
    }

    /// The names of NATURAL, in the order of the left side.
    fn common(&self, right: &Joined) -> Option<Vec<Ident>> {
        let right = right.names()?;
        let mut common: Vec<Ident> = Vec::new();
        for name in self.names()? {
            if right.contains(&name) && !common.iter().any(|known| known.value == *name) {
                common.push(Ident::with_quote('"', name));
            }
        }
        Some(common)
    }

    /// Expands `*`: the merged columns, then the other columns of each table.
    fn expand(&self, items: &mut Vec<SelectItem>) {
        for part in &self.parts {
            let Factor { alias, columns } = match part {
                Part::Merged(merged) => {
                    items.push(SelectItem::ExprWithAlias { expr: merged.expr.clone(), alias: merged.ident.clone() });
                    continue;
                }
                Part::Table(table) => table,
            };
            let mut hidden = self.merged().filter(|merged| merged.owners.contains(&alias.value));
            if let Some(columns) = columns {
                let hidden: Vec<&str> = hidden.map(|merged| merged.name.as_str()).collect();
                let shown = columns.iter().filter(|column| !hidden.contains(&column.as_str()));
                items
                    .extend(shown.map(|name| SelectItem::UnnamedExpr(qualified(alias, &Ident::with_quote('"', name)))));
                continue;
            }
            let mut options = ast::WildcardAdditionalOptions::default();
            if let Some(first) = hidden.next() {
                let additional_elements = hidden.map(|merged| merged.ident.clone()).collect();
                let first_element = first.ident.clone();
                options.opt_except = Some(ast::ExceptSelectItem { first_element, additional_elements });
            }
            let table = SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![alias.clone()]));
            items.push(SelectItem::QualifiedWildcard(table, options));
        }
    }
}

/// Whether a FROM has a join that merges columns.
pub(crate) fn merges(tables: &TableWithJoins) -> bool {
    tables.joins.iter().any(is_merging) || nested(tables).any(merges)
}

fn is_merging(join: &ast::Join) -> bool {
    matches!(constraint(&join.join_operator), Some(JoinConstraint::Using(_) | JoinConstraint::Natural))
}

/// The joins in parentheses among the tables of a FROM.
fn nested(tables: &TableWithJoins) -> impl Iterator<Item = &TableWithJoins> {
    fragments::factors(tables).filter_map(|factor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => Some(table_with_joins.as_ref()),
        _ => None,
    })
}

fn qualified(table: &Ident, column: &Ident) -> Expr {
    Expr::CompoundIdentifier(vec![table.clone(), column.clone()])
}

fn parsed(text: &str) -> Option<Expr> {
    Parser::new(&SqlDialect).try_with_sql(text).ok()?.parse_expr().ok()
}

fn output_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(folded(name)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => names.last().map(folded),
        _ => None,
    }
}

/// The merged columns of a FROM, and what is known of the tables that subqueries name.
struct Names<'a> {
    merged: Vec<&'a Merged>,
    named: &'a dyn Fn(&ObjectName) -> Columns,
}

/// Replaces the names of merged columns by their expressions. In subqueries, a name that a table of the subquery may have
/// stays. Returns whether there is one.
fn replace(sql: &mut impl VisitMut, names: &Names) -> bool {
    struct Replacer<'a> {
        names: &'a Names<'a>,
        /// For each enclosing subquery, which of the merged columns its tables may have.
        own: Vec<Vec<bool>>,
        is_left: bool,
    }
    impl VisitorMut for Replacer<'_> {
        type Break = ();
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            let merged = self.names.merged.iter();
            self.own.push(merged.map(|column| may_have(&query.body, &column.name, self.names.named)).collect());
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.own.pop();
            ControlFlow::Continue(())
        }
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Identifier(name) = &*expr
                && let Some(at) = self.names.merged.iter().position(|merged| merged.name == folded(name))
            {
                match self.own.iter().any(|own| own[at]) {
                    true => self.is_left = true,
                    false => *expr = self.names.merged[at].expr.clone(),
                }
            }
            ControlFlow::Continue(())
        }
    }
    let mut replacer = Replacer { names, own: vec![], is_left: false };
    let _ = visitor::visit_mut(sql, &mut replacer);
    replacer.is_left
}

/// Whether a table of a query's FROM has a column, or may have it.
fn may_have(body: &SetExpr, name: &str, named: &dyn Fn(&ObjectName) -> Columns) -> bool {
    match body {
        SetExpr::Select(select) => {
            select.from.iter().flat_map(fragments::factors).any(|factor| factor_may_have(factor, name, named))
        }
        SetExpr::SetOperation { left, right, .. } => may_have(left, name, named) || may_have(right, name, named),
        SetExpr::Query(query) => may_have(&query.body, name, named),
        _ => false,
    }
}

fn factor_may_have(factor: &TableFactor, name: &str, named: &dyn Fn(&ObjectName) -> Columns) -> bool {
    let listed = |alias: &Option<ast::TableAlias>| {
        let columns = &alias.as_ref().filter(|alias| !alias.columns.is_empty())?.columns;
        Some(columns.iter().any(|column| folded(&column.name) == name))
    };
    match factor {
        TableFactor::Table { name: table, args: None, alias, .. } => {
            let has = || named(table).is_none_or(|columns| columns.iter().any(|column| column == name));
            listed(alias).unwrap_or_else(has)
        }
        TableFactor::Derived { subquery, alias, .. } => listed(alias).unwrap_or_else(|| match subquery.body.as_ref() {
            SetExpr::Select(select) => {
                select.projection.iter().any(|item| output_name(item).is_none_or(|own| own == name))
            }
            _ => true,
        }),
        TableFactor::Table { alias, .. } | TableFactor::Function { alias, .. } => listed(alias).unwrap_or(true),
        _ => true,
    }
}
