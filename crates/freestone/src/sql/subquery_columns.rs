//! Gives the result columns of subqueries different names.
//!
//! SQL allows the columns of a subquery to have the same name, as long as it is not referenced: `SELECT * FROM (SELECT
//! a.id, b.id FROM a JOIN b …) q` has two columns `id`, and `q.id` is an error. DataFusion requires different names. So
//! a query that repeats a name is rewritten with other names, which [`shown`](crate::sql::names::shown) reverts, and a wildcard with such
//! a name is expanded. If two columns are the same expression, the first keeps the name, because a reference to either
//! has the same value.
//!
//! The columns of tables, WITHs and subqueries are computed for this. Joins with USING need them as well.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Cte, ExceptSelectItem, ExcludeSelectItem, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, OrderBy,
    OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, SetQuantifier, Statement,
    TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, VisitMut, VisitorMut, WildcardAdditionalOptions,
    With,
};

use crate::error::{Error, Result};
use crate::internal_names::MARK;
use crate::sql::extensions::groups::{self, Keyed};
use crate::sql::extensions::joins::{self, Leftovers};
use crate::sql::extensions::pivots::{self, PivotValues};
use crate::sql::extensions::{self, Evaluate, Sources, Starred, orders};
use crate::sql::names::{Columns, Factored, call_text, casts, folded, result_columns};
use crate::sql::{fragments, using, visitor};

/// The columns of a table of the database or of the caller, by its name.
pub(crate) type Tables<'a> = dyn Fn(&ObjectName) -> Columns + 'a;

/// The position of a query in the statement.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// Its rows are the statement's result, whose columns may have the same name.
    Top,
    Within,
}

/// The information that is available when names are resolved.
pub(crate) struct Known<'a> {
    pub tables: &'a Tables<'a>,
    /// The columns of a table function, by the text of its call.
    pub calls: &'a dyn Fn(&str) -> Columns,
    /// Whether a function may give another result each time.
    pub is_volatile: &'a dyn Fn(&str) -> bool,
    pub evaluate: &'a Evaluate<'a>,
    /// The primary key of a table of the database.
    pub key: &'a dyn Fn(&ObjectName) -> Option<Vec<String>>,
    pub is_aggregate: &'a dyn Fn(&str) -> bool,
    pub pivots: &'a PivotValues,
}

/// Gives the columns of all queries different names, rewrites joins with USING as joins with ON, and the
/// forms of [`extensions`] that need columns. If the values of a PIVOT are not known, returns the queries for them, and
/// the statement must be resolved again.
///
/// # Errors
/// A reference is ambiguous, or the columns that a form needs are not known.
pub(crate) fn resolve(statement: &mut Statement, known: &Known) -> Result<Vec<Query>> {
    let mut resolver =
        Resolver { known, ctes: vec![], definitions: vec![], left: Leftovers::default(), wanted: vec![] };
    match statement {
        Statement::Query(query) => resolver.query(query, Place::Top).map(drop)?,
        Statement::Insert(insert) => {
            if let Some(query) = &mut insert.source {
                resolver.query(query, Place::Top)?;
            }
        }
        Statement::CreateTable(create) => {
            if let Some(query) = &mut create.query {
                resolver.query(query, Place::Top)?;
            }
        }
        Statement::Prepare { statement, .. } | Statement::Explain { statement, .. } => {
            return resolve(statement, known);
        }
        other => resolver.subqueries(other)?,
    }
    Ok(resolver.wanted)
}

/// Whether this needs the columns of tables: a subquery has a wildcard over several tables, or there is a join that
/// merges columns.
pub(crate) fn asks_for_columns(statement: &mut Statement) -> bool {
    struct Asking {
        depth: usize,
    }
    impl VisitorMut for Asking {
        type Break = ();
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            self.depth += 1;
            let by_all = matches!(&query.order_by, Some(OrderBy { kind: OrderByKind::All(_), .. }));
            let mut ctes = query.with.iter().flat_map(|with| &with.cte_tables);
            let has_partial = ctes.any(|cte| is_partial(&cte.alias, Some(&cte.query)));
            if by_all || has_partial || asks(&query.body, self.depth > 1) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        }
        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            let is_asking = match factor {
                TableFactor::Table { alias: Some(alias), args: None, .. } => is_partial(alias, None),
                TableFactor::Derived { alias: Some(alias), subquery, .. } => is_partial(alias, Some(subquery)),
                _ => false,
            };
            if is_asking { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }
    }
    visitor::visit_mut(statement, &mut Asking { depth: 0 }).is_break()
}

fn asks(body: &SetExpr, within: bool) -> bool {
    match body {
        SetExpr::Select(select) => {
            let joined = select.from.len() > 1 || select.from.iter().any(|tables| !tables.joins.is_empty());
            within && joined && select.projection.iter().any(is_star)
                || select.from.iter().any(using::merges)
                || extensions::asks_for_columns(select)
        }
        SetExpr::SetOperation { left, right, .. } => asks(left, true) || asks(right, true),
        _ => false,
    }
}

struct Resolver<'a> {
    known: &'a Known<'a>,
    /// The visible WITHs. If several have the same name, the last is used.
    ctes: Vec<(String, Columns)>,
    /// Their definitions.
    definitions: Vec<Cte>,
    /// The changes by rewritten joins of the current FROM.
    left: Leftovers,
    /// Queries whose results are needed first.
    wanted: Vec<Query>,
}

impl<'a> Resolver<'a> {
    fn query(&mut self, query: &mut Query, place: Place) -> Result<Columns> {
        let (in_sight, defined) = (self.ctes.len(), self.definitions.len());
        if let Some(with) = &mut query.with {
            for cte in &mut with.cte_tables {
                let name = folded(&cte.alias.name);
                if with.recursive {
                    self.ctes.push((name.clone(), listed(Some(&cte.alias))));
                }
                let columns = self.query(&mut cte.query, Place::Within)?;
                self.ctes.push((name, renamed(Some(&mut cte.alias), columns)));
                self.definitions.push(cte.clone());
            }
        }
        let columns = self.body(&mut query.body, query.order_by.as_mut(), place)?;
        orders::by_all(query.order_by.as_mut(), columns.as_ref().map(|columns| columns.len()));
        if matches!(*query.body, SetExpr::SetOperation { .. }) && orders::is_by_all(query.order_by.as_ref()) {
            return Err(Error::unsupported("ORDER BY ALL of a set operation whose columns are not known")
                .with_hint("name the columns or their positions: ORDER BY 1, 2"));
        }
        self.subqueries(&mut query.order_by)?;
        self.subqueries(&mut query.limit_clause)?;
        self.ctes.truncate(in_sight);
        self.definitions.truncate(defined);
        Ok(columns)
    }

    fn body(&mut self, body: &mut SetExpr, order: Option<&mut OrderBy>, place: Place) -> Result<Columns> {
        match body {
            SetExpr::Select(select) => self.select(select, order, place),
            SetExpr::SetOperation { left, right, set_quantifier, .. } => {
                let left = self.body(left, None, Place::Within)?;
                let right = self.body(right, None, Place::Within)?;
                Ok(match set_quantifier {
                    SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName => {
                        left.zip(right).map(|(columns, others)| {
                            let new = others.iter().filter(|name| !columns.contains(name));
                            columns.iter().chain(new).cloned().collect()
                        })
                    }
                    SetQuantifier::All | SetQuantifier::Distinct | SetQuantifier::None => left.or(right),
                })
            }
            SetExpr::Query(query) => self.query(query, place),
            SetExpr::Values(values) => {
                self.subqueries(values)?;
                let width = values.rows.first().map_or(0, |row| row.content.len());
                Ok(Some((1..=width).map(|at| format!("column{at}")).collect()))
            }
            _ => Ok(None),
        }
    }

    fn select(&mut self, select: &mut Select, mut order: Option<&mut OrderBy>, place: Place) -> Result<Columns> {
        let outer = std::mem::take(&mut self.left);
        let mut from = Vec::with_capacity(select.from.len());
        for tables in &mut select.from {
            from.push(self.joined(tables)?);
        }
        let left = std::mem::replace(&mut self.left, outer);
        if extensions::asks_for_columns(select) || !left.hidden.is_empty() || orders::is_by_all(order.as_deref()) {
            let sources = self.sources(select, &from, &left);
            if extensions::is_pivot(select) {
                let with = |query: Box<Query>| with_definitions(query, &self.definitions);
                if let Some(query) = pivots::rewrite(select, &sources, self.known.pivots, &with)? {
                    self.wanted.push(*query);
                    return Ok(None);
                }
                return self.select(select, order, place);
            }
            extensions::with_columns(select, order.as_deref_mut(), &sources, self.known.is_volatile)?;
            joins::finish(select, order.as_deref_mut(), &left);
        }
        if groups::asks(select) {
            let keyed = self.keyed(select);
            groups::by_keys(select, order.as_deref_mut(), &keyed, self.known.is_aggregate);
        }
        self.subqueries(&mut select.distinct)?;
        self.subqueries(&mut select.projection)?;
        self.subqueries(&mut select.selection)?;
        self.subqueries(&mut select.group_by)?;
        self.subqueries(&mut select.having)?;
        self.subqueries(&mut select.qualify)?;
        self.subqueries(&mut select.named_window)?;
        using::rewrite(select, order.as_deref_mut(), &from, &|name| self.named(name))?;
        casts::tell_apart(select, order.as_deref_mut());
        let outputs = if place == Place::Within { outputs(select, &from) } else { None };
        let Some(outputs) = outputs else {
            result_columns::apart_items(&mut select.projection);
            return Ok(None);
        };
        apart(select, outputs, order.as_deref())
    }

    fn is_cte(&self, name: &ObjectName) -> bool {
        let [part] = name.0.as_slice() else { return false };
        part.as_ident().is_some_and(|part| self.ctes.iter().any(|(cte, _)| *cte == folded(part)))
    }

    /// The tables of a FROM that have a primary key.
    fn keyed(&self, select: &Select) -> Vec<Keyed> {
        let tables = groups::tables(select).into_iter();
        let keyed = |(name, table): (ObjectName, Ident)| {
            let is_cte = self.is_cte(&name);
            let key = (self.known.key)(&name).filter(|_| !is_cte)?;
            let columns = self.named(&name)?.to_vec();
            Some(Keyed { table, key, columns })
        };
        tables.filter_map(keyed).collect()
    }

    /// The columns of FROM that the forms of a SELECT need.
    fn sources(&self, select: &Select, from: &[Vec<Factored>], left: &Leftovers) -> Sources<'a> {
        let mut star = Some(vec![]);
        for (tables, columns) in select.from.iter().zip(from) {
            let own = star_of(tables, columns);
            star = star.zip(own).map(|(mut star, own)| {
                star.extend(own);
                star
            });
        }
        let all: Option<Vec<&Arc<[String]>>> = from.iter().flatten().map(|known| known.columns.as_ref()).collect();
        let names = all.map(|all| all.into_iter().flat_map(|columns| columns.iter().cloned()).collect());
        let functions = select.from.iter().flat_map(extensions::functions_of).collect();
        // The right columns of an ASOF JOIN with USING are merged with the left ones.
        if let Some(star) = &mut star {
            star.retain(|column| !left.merges(column));
        }
        Sources { star, names, functions, evaluate: self.known.evaluate }
    }

    /// The columns of each table of one item of FROM.
    fn joined(&mut self, tables: &mut TableWithJoins) -> Result<Vec<Factored>> {
        using::flatten(tables)?;
        let mut all = vec![self.factored(&mut tables.relation)?];
        for join in &mut tables.joins {
            all.push(self.factored(&mut join.relation)?);
            self.subqueries(&mut join.join_operator)?;
        }
        let columns: Vec<Columns> = all.iter().map(|known| known.columns.clone()).collect();
        joins::rewrite(tables, &columns, &mut self.left)?;
        Ok(all)
    }

    fn factored(&mut self, factor: &mut TableFactor) -> Result<Factored> {
        if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
            let within = self.joined(table_with_joins)?;
            let star = star_of(table_with_joins, &within);
            let columns = star.map(|star| star.into_iter().map(|column| column.name).collect());
            return Ok(Factored { columns, within });
        }
        Ok(Factored { columns: self.factor(factor)?, within: vec![] })
    }

    fn factor(&mut self, factor: &mut TableFactor) -> Result<Columns> {
        let (columns, alias) = match factor {
            TableFactor::Table { name, alias, args: None, .. } => (self.named(name), alias),
            TableFactor::Table { name, alias, args: Some(args), .. } => {
                self.subqueries(&mut args.args)?;
                ((self.known.calls)(&call_text(name, args)), alias)
            }
            TableFactor::Derived { subquery, alias, .. } => {
                let columns = self.query(subquery, Place::Within)?;
                (columns, alias)
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let columns = self.joined(table_with_joins)?;
                let star = star_of(table_with_joins, &columns);
                (star.map(|star| star.into_iter().map(|column| column.name).collect()), alias)
            }
            TableFactor::Function { args, alias, .. } => {
                self.subqueries(args)?;
                (None, alias)
            }
            TableFactor::UNNEST { array_exprs, alias, .. } => {
                self.subqueries(array_exprs)?;
                (None, alias)
            }
            _ => return Ok(None),
        };
        Ok(renamed(alias.as_mut(), columns))
    }

    fn named(&self, name: &ObjectName) -> Columns {
        if let [part] = name.0.as_slice() {
            let ident = folded(part.as_ident()?);
            if let Some((_, columns)) = self.ctes.iter().rev().find(|(cte, _)| *cte == ident) {
                return columns.clone();
            }
        }
        (self.known.tables)(name)
    }

    /// The subqueries in expressions.
    fn subqueries(&mut self, sql: &mut impl VisitMut) -> Result<()> {
        struct Found<'r, 'a> {
            resolver: &'r mut Resolver<'a>,
            depth: usize,
            error: Option<Error>,
        }
        impl VisitorMut for Found<'_, '_> {
            type Break = ();
            fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
                if self.depth == 0
                    && let Err(error) = self.resolver.query(query, Place::Within)
                {
                    self.error = Some(error);
                    return ControlFlow::Break(());
                }
                self.depth += 1;
                ControlFlow::Continue(())
            }
            fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
                self.depth -= 1;
                ControlFlow::Continue(())
            }
        }
        let mut found = Found { resolver: self, depth: 0, error: None };
        let _ = visitor::visit_mut(sql, &mut found);
        found.error.map_or(Ok(()), Err)
    }
}

/// A query with the tables that an enclosing WITH defines.
fn with_definitions(mut query: Box<Query>, definitions: &[Cte]) -> Box<Query> {
    if !definitions.is_empty() {
        let (with_token, cte_tables) = (AttachedToken::empty(), definitions.to_vec());
        query.with = Some(With { with_token, recursive: false, cte_tables });
    }
    query
}

/// The column list of an alias.
fn listed(alias: Option<&TableAlias>) -> Columns {
    let columns = &alias?.columns;
    (!columns.is_empty()).then(|| columns.iter().map(|column| folded(&column.name)).collect())
}

/// The columns of a table under an alias. A list that names only the first columns is completed, because DataFusion asks
/// for the names of all.
fn renamed(alias: Option<&mut TableAlias>, columns: Columns) -> Columns {
    let Some(names) = listed(alias.as_deref()) else { return columns };
    match (alias, columns.as_ref().and_then(|columns| columns.get(names.len()..))) {
        (Some(alias), Some(rest)) if !rest.is_empty() => {
            let added = rest.iter().map(|name| TableAliasColumnDef { name: fragments::quoted(name), data_type: None });
            alias.columns.extend(added);
            Some(names.iter().chain(rest).cloned().collect())
        }
        _ => Some(names),
    }
}

/// Whether an alias may name only the first columns of a table.
fn is_partial(alias: &TableAlias, query: Option<&Query>) -> bool {
    let count = query.and_then(|query| match query.body.as_ref() {
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        SetExpr::Select(select) if !select.projection.iter().any(is_star) => Some(select.projection.len()),
        _ => None,
    });
    !alias.columns.is_empty() && count.is_none_or(|count| alias.columns.len() < count)
}

fn is_star(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

/// The columns of `*` in one item of FROM.
fn star_of(tables: &TableWithJoins, known: &[Factored]) -> Option<Vec<Starred>> {
    let of = |factor: &TableFactor, known: &Factored| -> Option<Vec<Starred>> {
        if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
            return star_of(table_with_joins, &known.within);
        }
        let table = using::table_name(factor);
        Some(
            known
                .columns
                .as_ref()?
                .iter()
                .map(|name| Starred { table: table.clone(), name: name.clone(), merged: false })
                .collect(),
        )
    };
    let mut star = of(&tables.relation, known.first()?)?;
    for (join, known) in tables.joins.iter().zip(&known[1..]) {
        let mut right = of(&join.relation, known)?;
        match &join.join_operator {
            JoinOperator::LeftSemi(_) | JoinOperator::LeftAnti(_) => continue,
            JoinOperator::RightSemi(_) | JoinOperator::RightAnti(_) => star.clear(),
            _ => {}
        }
        match using::constraint(&join.join_operator) {
            Some(JoinConstraint::Using(names)) => {
                let names: Vec<String> =
                    names.iter().filter_map(|name| name.0.last()?.as_ident()).map(folded).collect();
                right.retain(|column| !names.contains(&column.name));
                star.iter_mut().for_each(|left| left.merged |= names.contains(&left.name));
                // The merged columns come first, in the order of USING.
                star.sort_by_key(|left| names.iter().position(|name| *name == left.name).unwrap_or(names.len()));
            }
            Some(JoinConstraint::Natural) => {
                let common = |left: &Starred| right.iter().any(|column| column.name == left.name);
                star.iter_mut().for_each(|left| left.merged |= common(left));
                star.sort_by_key(|left| !common(left));
                right.retain(|column| star.iter().all(|left| left.name != column.name));
            }
            _ => {}
        }
        star.extend(right);
    }
    Some(star)
}

/// A result column of a SELECT.
struct Output {
    name: String,
    /// The position of the SELECT item from which it comes.
    item: usize,
    /// The column, if the item is a wildcard.
    starred: Option<Starred>,
}

/// The result columns of a SELECT; `None` if not all are known.
fn outputs(select: &Select, from: &[Vec<Factored>]) -> Option<Vec<Output>> {
    let has_star = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    let mut star = vec![];
    if select.projection.iter().any(has_star) {
        for (tables, columns) in select.from.iter().zip(from) {
            star.extend(star_of(tables, columns)?);
        }
    }
    let mut outputs = vec![];
    for (item, selected) in select.projection.iter().enumerate() {
        let starred = match selected {
            SelectItem::Wildcard(options) => kept(&star, options)?,
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                let table = folded(name.0.last()?.as_ident()?);
                let of_table = star.iter().filter(|c| c.table.as_ref().is_some_and(|own| folded(own) == table));
                let of_table: Vec<Starred> = of_table.cloned().collect();
                // They include columns that a join has merged.
                let merges = select.from.iter().any(using::merges);
                if of_table.is_empty() || merges {
                    return None;
                }
                kept(&of_table, options)?
            }
            // Applied to a struct, it returns one column per field.
            SelectItem::ExprWithAlias { expr: Expr::Function(call), .. }
                if call.name.to_string().eq_ignore_ascii_case("unnest") =>
            {
                return None;
            }
            named => {
                outputs.push(Output { name: result_columns::output_name(named)?, item, starred: None });
                continue;
            }
        };
        outputs.extend(starred.into_iter().map(|column| Output {
            name: column.name.clone(),
            item,
            starred: Some(column),
        }));
    }
    Some(outputs)
}

/// The columns of a wildcard that remain under its options; `None` if the options do more than exclude columns.
fn kept(star: &[Starred], options: &WildcardAdditionalOptions) -> Option<Vec<Starred>> {
    if options.opt_ilike.is_some() || options.opt_replace.is_some() || options.opt_rename.is_some() {
        return None;
    }
    let mut left_out = vec![];
    if let Some(ExceptSelectItem { first_element, additional_elements }) = &options.opt_except {
        left_out.push(folded(first_element));
        left_out.extend(additional_elements.iter().map(folded));
    }
    let excluded = match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => std::slice::from_ref(name),
        Some(ExcludeSelectItem::Multiple(names)) => names.as_slice(),
        None => &[],
    };
    for name in excluded {
        left_out.push(folded(name.0.last()?.as_ident()?));
    }
    Some(star.iter().filter(|column| !left_out.contains(&column.name)).cloned().collect())
}

/// The SELECT with a different name for each column.
fn apart(select: &mut Select, outputs: Vec<Output>, order: Option<&OrderBy>) -> Result<Columns> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, output) in outputs.iter().enumerate() {
        places.entry(&output.name).or_default().push(at);
    }
    if places.len() == outputs.len() {
        return Ok(Some(outputs.into_iter().map(|output| output.name).collect()));
    }
    let exprs: Vec<Expr> = outputs.iter().map(|output| expr_of(output, &select.projection)).collect();
    // The new names of the columns that need one.
    let mut other: Vec<Option<String>> = vec![None; outputs.len()];
    let mut taken: HashSet<String> = outputs.iter().map(|output| output.name.clone()).collect();
    let mut repeated: Vec<(&str, Vec<usize>)> = places.into_iter().filter(|(_, places)| places.len() > 1).collect();
    repeated.sort_by_key(|(_, places)| places[0]);
    for (name, places) in repeated {
        let is_one = places.iter().all(|at| exprs[*at] == exprs[places[0]]);
        if !is_one {
            check_order(name, order)?;
        }
        for at in &places[usize::from(is_one)..] {
            other[*at] = Some(unused(name, *at, &mut taken));
        }
    }
    let written_out: Vec<bool> = (0..select.projection.len())
        .map(|item| outputs.iter().zip(&other).any(|(output, other)| output.item == item && other.is_some()))
        .collect();
    let mut items = vec![];
    let mut rest = outputs.iter().zip(&other).zip(exprs).peekable();
    for (at, item) in std::mem::take(&mut select.projection).into_iter().enumerate() {
        let own = std::iter::from_fn(|| rest.next_if(|((output, _), _)| output.item == at));
        let replaced: Vec<SelectItem> = own
            .map(|((output, other), expr)| match other {
                Some(name) => SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) },
                None if output.starred.is_some() => SelectItem::UnnamedExpr(expr),
                None => item.clone(),
            })
            .collect();
        if written_out[at] { items.extend(replaced) } else { items.push(item) }
    }
    select.projection = items;
    let names = outputs.into_iter().zip(other).map(|(output, other)| other.unwrap_or(output.name));
    Ok(Some(names.collect()))
}

fn expr_of(output: &Output, items: &[SelectItem]) -> Expr {
    match (&output.starred, &items[output.item]) {
        (Some(column), _) => column.qualified(),
        (None, SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => expr.clone(),
        (None, _) => Expr::Identifier(Ident::with_quote('"', &output.name)),
    }
}

/// A name that no other column has, and from which the name for users can be derived.
fn unused(name: &str, at: usize, taken: &mut HashSet<String>) -> String {
    let shown = name.split(MARK).next().unwrap_or_default();
    let mut names = (at..).map(|number| format!("{shown}{MARK}{number}"));
    names.find(|name| taken.insert(name.clone())).unwrap_or_else(|| shown.to_owned())
}

/// Refuses `ORDER BY name` if several columns have this name.
fn check_order(name: &str, order: Option<&OrderBy>) -> Result<()> {
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = order else { return Ok(()) };
    let says = |expr: &Expr| matches!(expr, Expr::Identifier(ident) if folded(ident) == name);
    match keys.iter().any(|key| says(&key.expr)) {
        true => Err(Error::ambiguous(name)),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::statement::parse_query;

    /// Resolves names where nothing but tables is known.
    fn resolve_with(statement: &mut Statement, tables: &dyn Fn(&ObjectName) -> Columns) -> Result<()> {
        let known = Known {
            tables,
            calls: &|_| None,
            is_volatile: &|name| name == "random",
            evaluate: &|expr| Err(Error::invalid(format!("{expr} is not evaluated"))),
            key: &|_| None,
            is_aggregate: &|name| name == "sum",
            pivots: &std::collections::HashMap::new(),
        };
        resolve(statement, &known).map(drop)
    }

    #[test]
    fn what_repeats_a_name_gets_another() {
        for (sql, expected) in [
            ("SELECT a, A, \"A\" FROM t", "SELECT a, A AS \"|1|0\", \"A\" FROM t"),
            ("SELECT 1, 1, 2", "SELECT 1 AS \"1\", 1 AS \"|1|0\", 2 AS \"2\""),
            ("SELECT t.a, u.a FROM t, u", "SELECT t.a, u.a FROM t, u"),
            ("SELECT t.a, t.a, a FROM t", "SELECT t.a, t.a AS \"|1|0\", a AS \"|2|0\" FROM t"),
            ("SELECT a, b AS a FROM t", "SELECT a, b AS \"|1|0\" FROM t"),
            ("SELECT *, a FROM t", "SELECT *, a AS \"a|1\" FROM t"),
            ("SELECT a, * FROM t", "SELECT a AS \"a|0\", * FROM t"),
            ("SELECT *, a + 1 AS b FROM t", "SELECT *, a + 1 AS b FROM t"),
            ("SELECT t.*, t.a, u.a, b FROM t, u", "SELECT t.*, t.a AS \"a|1\", u.a, b FROM t, u"),
            ("SELECT COUNT(*), count(*) FROM t", "SELECT COUNT(*) AS \"count(*)\", count(*) AS \"|1|0\" FROM t"),
            ("SELECT a, a::text FROM t", "SELECT a, a::TEXT AS \"a::TEXT\" FROM t"),
        ] {
            let mut statement = Statement::Query(parse_query(sql).expect(sql));
            resolve_with(&mut statement, &|_| None).expect(sql);
            assert_eq!(statement.to_string().replace(MARK, "|"), expected, "{sql}");
        }
    }

    /// The tables are `a (id, x)` and `b (id, y)`.
    fn resolved(sql: &str) -> Result<String> {
        let tables = |name: &ObjectName| -> Columns {
            match name.to_string().as_str() {
                "a" => Some(["id".to_owned(), "x".to_owned()].into()),
                "b" => Some(["id".to_owned(), "y".to_owned()].into()),
                _ => None,
            }
        };
        let mut statement = Statement::Query(parse_query(sql)?);
        resolve_with(&mut statement, &tables)?;
        Ok(statement.to_string().replace(MARK, "|"))
    }

    #[test]
    fn columns_of_queries_within_have_names_of_their_own() {
        for (sql, expected) in [
            ("SELECT * FROM (SELECT id, x FROM a) AS q", "SELECT * FROM (SELECT id, x FROM a) AS q"),
            ("SELECT * FROM (SELECT x, x FROM a) AS q", "SELECT * FROM (SELECT x, x AS \"x|1\" FROM a) AS q"),
            (
                "SELECT * FROM (SELECT * FROM a JOIN b ON a.id = b.id) AS q",
                "SELECT * FROM (SELECT a.\"id\" AS \"id|0\", a.\"x\", b.\"id\" AS \"id|2\", b.\"y\" FROM a JOIN b ON a.id = \
                 b.id) AS q",
            ),
            (
                "SELECT * FROM (SELECT * FROM a JOIN b USING (id)) AS q",
                "SELECT * FROM (SELECT a.id AS id, a.\"x\", b.\"y\" FROM a JOIN b ON a.id = b.id) AS q",
            ),
            (
                "WITH q AS (SELECT a.id, b.id FROM a, b) SELECT * FROM q",
                "WITH q AS (SELECT a.id AS \"id|0\", b.id AS \"id|1\" FROM a, b) SELECT * FROM q",
            ),
            (
                "WITH q AS (SELECT 1 AS k, 2 AS k) SELECT * FROM (SELECT * FROM q, q AS r) AS s",
                "WITH q AS (SELECT 1 AS \"k|0\", 2 AS \"k|1\") SELECT * FROM (SELECT q.\"k|0\" AS \"k|2\", q.\"k|1\" AS \
                 \"k|4\", r.\"k|0\" AS \"k|3\", r.\"k|1\" AS \"k|5\" FROM q, q AS r) AS s",
            ),
            ("SELECT * FROM a JOIN b ON a.id = b.id", "SELECT * FROM a JOIN b ON a.id = b.id"),
            ("SELECT id, id FROM a", "SELECT id, id AS \"|1|0\" FROM a"),
            (
                "SELECT x, x FROM a UNION SELECT 1, 2 ORDER BY 1",
                "SELECT x, x AS \"x|1\" FROM a UNION SELECT 1 AS \"1\", 2 AS \"2\" ORDER BY 1",
            ),
            (
                "SELECT 1 WHERE EXISTS (SELECT * FROM a, (SELECT x, x FROM a) AS r)",
                "SELECT 1 AS \"1\" WHERE EXISTS (SELECT a.\"id\", a.\"x\" AS \"x|2\", r.\"x\" AS \"x|3\", r.\"x|1\" \
                 FROM a, (SELECT x, x AS \"x|1\" FROM a) AS r)",
            ),
            ("SELECT * FROM (SELECT *, x FROM f(1)) AS q", "SELECT * FROM (SELECT *, x AS \"x|1\" FROM f(1)) AS q"),
        ] {
            assert_eq!(resolved(sql).expect(sql), expected, "{sql}");
        }
    }

    #[test]
    fn an_order_by_a_name_of_several_columns_is_refused() {
        let sql = "SELECT * FROM (SELECT id AS k, x AS k FROM a ORDER BY k) AS q";
        assert!(resolved(sql).expect_err(sql).to_string().contains("ambiguous"));
        assert!(resolved("SELECT * FROM (SELECT x, x FROM a ORDER BY x) AS q").is_ok());
    }
}
