//! Columns of one name in a result, as in `SELECT 1, 1` and `SELECT a, a`: SQL allows them, DataFusion wants each name once.
//! So what repeats a name gets one of its own while the query is planned, which the result's schema then takes back.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Fields, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast::{
    CastKind, Expr, Ident, ObjectName, Query, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement,
    TableAlias, TableFactor, VisitMut, VisitorMut,
};
use futures::StreamExt;

use crate::visitor;

/// Begins what tells names apart. What follows is the column's place in the SELECT, and behind a further mark that of the
/// column whose name it has; what stands before the mark is the name where that place is not known.
const MARK: char = '\u{1}';

/// The expression without its casts.
fn without_casts(expr: &Expr) -> Expr {
    let mut bare = expr.clone();
    visitor::expressions_mut(&mut bare, &mut |expr| {
        while let Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: inner, .. } = expr {
            let inner = (**inner).clone();
            *expr = inner;
        }
    });
    bare
}

/// Queries whose columns a list renames (`WITH a(x, y) AS (SELECT 1, 1)`), with every column under a name of its own.
pub(crate) fn apart_in_lists(sql: &mut impl VisitMut) {
    struct Lists;
    impl VisitorMut for Lists {
        type Break = ();
        fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
                if !cte.alias.columns.is_empty() {
                    apart_in(&mut cte.query.body);
                }
            }
            ControlFlow::Continue(())
        }
        fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            if let TableFactor::Derived { subquery, alias: Some(alias), .. } = factor
                && !alias.columns.is_empty()
            {
                apart_in(&mut subquery.body);
            }
            ControlFlow::Continue(())
        }
    }
    let _ = visitor::visit_mut(sql, &mut Lists);
}

/// Gives every WITH a name that no WITH around it has: DataFusion takes each name once, SQL the innermost.
pub(crate) fn rename_shadowing(sql: &mut impl VisitMut) {
    let _ = visitor::visit_mut(sql, &mut Shadowing::default());
}

#[derive(Default)]
struct Shadowing {
    /// The names of the WITHs around, outermost query first.
    open: Vec<Vec<String>>,
    renamed: usize,
}

impl VisitorMut for Shadowing {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let own = defined(query);
        for (at, name) in own.iter().enumerate() {
            if self.open.iter().flatten().any(|outer| outer == name) {
                self.renamed += 1;
                let to = Ident::with_quote('"', format!("{name}{MARK}{}", self.renamed));
                rename(query, at, name, to);
            }
        }
        self.open.push(own);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.open.pop();
        ControlFlow::Continue(())
    }
}

/// The names that a query defines in its WITH.
fn defined(query: &Query) -> Vec<String> {
    query.with.iter().flat_map(|with| &with.cte_tables).map(|cte| folded(&cte.alias.name)).collect()
}

/// Renames one table of a query's WITH where it is defined and wherever it is seen.
fn rename(query: &mut Query, at: usize, from: &str, to: Ident) {
    let mut renaming = Renaming { from, to: to.clone(), shadowed: 0 };
    if let Some(with) = &mut query.with {
        // A definition sees itself only where it is recursive.
        let first = if with.recursive { at } else { at + 1 };
        for cte in with.cte_tables.iter_mut().skip(first) {
            let _ = visitor::visit_mut(&mut cte.query, &mut renaming);
        }
        if let Some(cte) = with.cte_tables.get_mut(at) {
            cte.alias.name = to;
        }
    }
    let _ = visitor::visit_mut(&mut query.body, &mut renaming);
    let _ = visitor::visit_mut(&mut query.order_by, &mut renaming);
}

struct Renaming<'a> {
    from: &'a str,
    to: Ident,
    /// How many queries around have a WITH of this name of their own.
    shadowed: usize,
}

impl VisitorMut for Renaming<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.shadowed += usize::from(defined(query).iter().any(|name| name == self.from));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.shadowed -= usize::from(defined(query).iter().any(|name| name == self.from));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if self.shadowed == 0
            && let TableFactor::Table { name, alias, args: None, .. } = factor
            && let [part] = name.0.as_slice()
            && let Some(ident) = part.as_ident().cloned()
            && folded(&ident) == self.from
        {
            alias.get_or_insert(TableAlias { explicit: true, name: ident, columns: vec![], at: None });
            *name = ObjectName::from(vec![self.to.clone()]);
        }
        ControlFlow::Continue(())
    }
}

/// The statement, if it is a query, with every column of its result under a name of its own.
pub(crate) fn apart(mut statement: Statement) -> Statement {
    match &mut statement {
        Statement::Query(query) => apart_in(&mut query.body),
        // Here only their places count.
        Statement::Insert(insert) => insert.source.iter_mut().for_each(|query| apart_in(&mut query.body)),
        Statement::Prepare { statement, .. } | Statement::Explain { statement, .. } => {
            **statement = apart((**statement).clone());
        }
        _ => {}
    }
    statement
}

fn apart_in(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => apart_items(&mut select.projection),
        SetExpr::SetOperation { left, right, .. } => {
            apart_in(left);
            apart_in(right);
        }
        SetExpr::Query(query) => apart_in(&mut query.body),
        _ => {}
    }
}

fn apart_items(items: &mut [SelectItem]) {
    let names: Vec<Option<Name>> = items.iter().map(Name::of).collect();
    let wildcards: Vec<Option<String>> = items.iter().filter_map(wildcard).collect();
    for at in 0..items.len() {
        let Some(name) = &names[at] else { continue };
        let before = names[..at].iter().position(|other| other.as_ref().is_some_and(|other| other.is(name)));
        let is_in_wildcard = wildcards.iter().any(|table| is_column_of(&items[at], table.as_deref()));
        if before.is_none() && !is_in_wildcard {
            continue;
        }
        // Behind a wildcard places are not known.
        let same = before.filter(|before| names[..=*before].iter().all(Option::is_some));
        let alias = match same {
            Some(same) => format!("{MARK}{at}{MARK}{same}"),
            None => format!("{}{MARK}{at}", name.text()),
        };
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = &items[at] {
            let (expr, alias) = (expr.clone(), Ident::with_quote('"', alias.replace('"', "")));
            items[at] = SelectItem::ExprWithAlias { expr, alias };
        }
    }
}

/// The table of `t.*`, or nothing for `*`, of all tables.
fn wildcard(item: &SelectItem) -> Option<Option<String>> {
    match item {
        SelectItem::Wildcard(_) => Some(None),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            Some(Some(folded(name.0.last()?.as_ident()?)))
        }
        _ => None,
    }
}

/// Whether an item is for certain a column of a table, or of any if that is nothing. An alias is a name of its own.
fn is_column_of(item: &SelectItem, table: Option<&str>) -> bool {
    match (item, table) {
        (SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_)), None) => true,
        (SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)), Some(table)) => {
            matches!(names.as_slice(), [.., owner, _] if folded(owner) == table)
        }
        _ => false,
    }
}

/// What a column of a SELECT is called.
enum Name {
    Column {
        name: String,
        table: Option<String>,
    },
    /// What it is computed by.
    Other(String),
}

impl Name {
    /// Nothing for a wildcard.
    fn of(item: &SelectItem) -> Option<Name> {
        let column = |name: &Ident| Name::Column { name: folded(name), table: None };
        match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(column(alias)),
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(column(name)),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => {
                let [.., table, name] = names.as_slice() else { return Some(Name::Other(item.to_string())) };
                Some(Name::Column { name: folded(name), table: Some(folded(table)) })
            }
            SelectItem::UnnamedExpr(expr) => {
                // DataFusion names a cast as what it casts: `a` and `a::text` are one name.
                let bare = without_casts(expr);
                if let Expr::Identifier(_) | Expr::CompoundIdentifier(_) = &bare {
                    return Name::of(&SelectItem::UnnamedExpr(bare));
                }
                let text = bare.to_string();
                // Names of functions are the same in any case; texts and quoted names are not.
                Some(Name::Other(if text.contains(['\'', '"']) { text } else { text.to_lowercase() }))
            }
            _ => None,
        }
    }

    fn is(&self, other: &Name) -> bool {
        match (self, other) {
            (Name::Column { name: a, table: of }, Name::Column { name: b, table: of_b }) => {
                a == b && (of == of_b || of.is_none() || of_b.is_none())
            }
            (Name::Other(a), Name::Other(b)) => a == b,
            _ => false,
        }
    }

    fn text(&self) -> &str {
        match self {
            Name::Column { name, .. } | Name::Other(name) => name,
        }
    }
}

pub(crate) fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

/// A result's schema with the names that its columns have for users.
pub(crate) fn shown(schema: SchemaRef) -> SchemaRef {
    if !schema.fields().iter().any(|field| field.name().contains(MARK)) {
        return schema;
    }
    let fields = schema.fields();
    let shown = fields.iter().enumerate().map(|(at, field)| match shown_name(at, fields) {
        name if name == field.name() => field.clone(),
        name => Arc::new(field.as_ref().clone().with_name(name)),
    });
    Arc::new(Schema::new_with_metadata(shown.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// The name that the column at a place has for users.
fn shown_name(at: usize, fields: &Fields) -> &str {
    let name = fields[at].name().as_str();
    match name.strip_prefix(MARK).and_then(|rest| rest.split_once(MARK)) {
        // Only to the left, so that it ends whatever somebody wrote as an alias.
        Some((_, same)) => match same.parse() {
            Ok(same) if same < at => shown_name(same, fields),
            _ => name,
        },
        None => name.split_once(MARK).map_or(name, |(name, _)| name),
    }
}

/// Rows under the names that their columns have for users.
pub(crate) fn shown_rows(stream: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = shown(stream.schema());
    if Arc::ptr_eq(&schema, &stream.schema()) {
        return stream;
    }
    let target = schema.clone();
    let rows = stream.map(move |batch| Ok(renamed(batch?, &target)?));
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

fn renamed(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::parse_query;

    #[test]
    fn what_repeats_a_name_gets_another() {
        for (sql, expected) in [
            ("SELECT 1, 1, 2", "SELECT 1, 1 AS \"|1|0\", 2"),
            ("SELECT a, A, \"A\" FROM t", "SELECT a, A AS \"|1|0\", \"A\" FROM t"),
            ("SELECT t.a, u.a FROM t, u", "SELECT t.a, u.a FROM t, u"),
            ("SELECT t.a, t.a, a FROM t", "SELECT t.a, t.a AS \"|1|0\", a AS \"|2|0\" FROM t"),
            ("SELECT a, b AS a FROM t", "SELECT a, b AS \"|1|0\" FROM t"),
            ("SELECT *, a FROM t", "SELECT *, a AS \"a|1\" FROM t"),
            ("SELECT a, * FROM t", "SELECT a AS \"a|0\", * FROM t"),
            ("SELECT *, 1, 1 FROM t", "SELECT *, 1, 1 AS \"1|2\" FROM t"),
            ("SELECT *, a + 1 AS b FROM t", "SELECT *, a + 1 AS b FROM t"),
            ("SELECT t.*, t.a, u.a, b FROM t, u", "SELECT t.*, t.a AS \"a|1\", u.a, b FROM t, u"),
            ("SELECT COUNT(*), count(*) FROM t", "SELECT COUNT(*), count(*) AS \"|1|0\" FROM t"),
            ("SELECT 'a', 'A'", "SELECT 'a', 'A'"),
            ("SELECT 1, 1 UNION SELECT 2, 2", "SELECT 1, 1 AS \"|1|0\" UNION SELECT 2, 2 AS \"|1|0\""),
        ] {
            let query = parse_query(sql).expect(sql);
            let found = apart(Statement::Query(query)).to_string().replace(MARK, "|");
            assert_eq!(found, expected, "{sql}");
        }
    }

    #[test]
    fn the_result_has_the_names_that_were_written() {
        use datafusion::arrow::datatypes::Field;
        let field = |name: &str| Field::new(name, datafusion::arrow::datatypes::DataType::Int64, true);
        let names = |schema: &Schema| schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        let schema = Schema::new(vec![field("Int64(1)"), field("\u{1}1\u{1}0"), field("a"), field("a\u{1}3")]);
        assert_eq!(names(&shown(Arc::new(schema))), ["Int64(1)", "Int64(1)", "a", "a"]);
        let schema = Schema::new(vec![field("a\u{1}0"), field("\u{1}1\u{1}0"), field("\u{1}2\u{1}1"), field("a")]);
        assert_eq!(names(&shown(Arc::new(schema))), ["a", "a", "a", "a"]);
    }
}
