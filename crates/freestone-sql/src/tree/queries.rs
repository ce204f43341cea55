//! Queries.

use super::{Call, Described, Expr, Name, ObjectName, OptionItem, Window, Write};
use crate::span::Span;

/// `[WITH …] body [ORDER BY …] [LIMIT …] [OFFSET …]`
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Queries with names.
    pub with: Option<With>,
    /// The rows.
    pub body: QueryBody,
    /// Their order.
    pub order_by: Option<OrderBy>,
    /// Their number.
    pub limit: Option<Limit>,
    /// The number of rows before the first one.
    pub offset: Option<Expr>,
    /// Where it stands.
    pub span: Span,
}

impl Query {
    /// These rows, without WITH, order and limit.
    pub fn of(body: QueryBody, span: Span) -> Query {
        Query { with: None, body, order_by: None, limit: None, offset: None, span }
    }
}

/// `WITH [RECURSIVE] …`
#[derive(Debug, Clone, PartialEq)]
pub struct With {
    /// Whether parts may refer to themselves.
    pub recursive: bool,
    /// The parts; one at least.
    pub parts: Vec<WithPart>,
}

/// `name (columns) USING KEY (columns, aggregates) AS [NOT] MATERIALIZED (…)`
#[derive(Debug, Clone, PartialEq)]
pub struct WithPart {
    /// Its name.
    pub name: Name,
    /// The names of its columns.
    pub columns: Vec<Name>,
    /// The columns by which rows of a recursion are known, and aggregates of all rows of a key. Of other columns, the last row's
    /// value counts.
    pub key: Vec<SelectItem>,
    /// MATERIALIZED (true) or NOT MATERIALIZED (false).
    pub materialized: Option<bool>,
    /// What it is.
    pub body: WithBody,
    /// Where it stands.
    pub span: Span,
}

/// What a part of WITH is.
#[derive(Debug, Clone, PartialEq)]
pub enum WithBody {
    /// A query.
    Query(Box<Query>),
    /// A statement that writes, in the WITH of a whole statement.
    Write(Box<Write>),
}

/// Where the rows of a query come from.
#[derive(Debug, Clone, PartialEq)]
pub enum QueryBody {
    /// `SELECT …`
    Select(Box<Select>),
    /// `VALUES (…), (…)`
    Values(Vec<Vec<Expr>>),
    /// `TABLE t`
    Table(ObjectName),
    /// `(…)`
    Nested(Box<Query>),
    /// `a UNION b EXCEPT c`: operators of one precedence, from left to right.
    Chain {
        /// The first operand.
        first: Box<QueryBody>,
        /// The operators, each with the operand behind it; one at least.
        rest: Vec<SetLink>,
    },
    /// `PIVOT t ON …`
    Pivot(Box<Pivot>),
    /// `UNPIVOT t ON …`
    Unpivot(Box<Unpivot>),
}

/// A set operation and the operand behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct SetLink {
    /// The operation.
    pub operator: SetOperator,
    /// Whether equal rows are kept.
    pub all: bool,
    /// Whether columns are matched by their names.
    pub by_name: bool,
    /// Where the operator stands.
    pub span: Span,
    /// The operand.
    pub operand: QueryBody,
}

/// Set operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SetOperator {
    Union,
    Except,
    Intersect,
}

/// `SELECT …`
#[derive(Debug, Clone, PartialEq)]
pub struct Select {
    /// Whether equal rows are one.
    pub distinct: Option<Distinct>,
    /// The columns; one at least.
    pub items: Vec<SelectItem>,
    /// The tables.
    pub from: Vec<Table>,
    /// The condition of rows.
    pub condition: Option<Expr>,
    /// The groups.
    pub group_by: GroupBy,
    /// The condition of groups.
    pub having: Option<Expr>,
    /// Windows with names.
    pub windows: Vec<NamedWindow>,
    /// The condition that may use window functions.
    pub qualify: Option<Expr>,
    /// A sample of FROM.
    pub sample: Option<Sample>,
    /// Where it stands.
    pub span: Span,
}

impl Select {
    /// `SELECT` of these items, without other clauses.
    pub fn of_items(items: Vec<SelectItem>, span: Span) -> Select {
        Select {
            distinct: None,
            items,
            from: vec![],
            condition: None,
            group_by: GroupBy::None,
            having: None,
            windows: vec![],
            qualify: None,
            sample: None,
            span,
        }
    }
}

/// DISTINCT, or DISTINCT ON.
#[derive(Debug, Clone, PartialEq)]
pub enum Distinct {
    /// All columns.
    Rows,
    /// `ON (…)`
    On(Vec<Expr>),
}

/// A value, and the name of its column.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectItem {
    /// The value.
    pub value: Expr,
    /// The name.
    pub alias: Option<Name>,
}

/// What stands behind GROUP BY.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupBy {
    /// There is none.
    None,
    /// `ALL`
    All,
    /// Keys; one at least.
    Keys(Vec<GroupKey>),
}

/// An element of GROUP BY.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupKey {
    /// A value, or several in a row.
    Value(Expr),
    /// `()`
    Empty,
    /// `ROLLUP (…)`
    Rollup(Vec<Expr>),
    /// `CUBE (…)`
    Cube(Vec<Expr>),
    /// `GROUPING SETS (…)`
    Sets(Vec<GroupKey>),
}

/// `name AS (…)` in WINDOW.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedWindow {
    /// The name.
    pub name: Name,
    /// The window.
    pub window: Window,
}

/// What stands behind ORDER BY of a query.
#[derive(Debug, Clone, PartialEq)]
pub enum OrderBy {
    /// `ALL`
    All(SortOrder),
    /// Keys; one at least.
    Keys(Vec<SortKey>),
}

/// A value by which rows are ordered.
#[derive(Debug, Clone, PartialEq)]
pub struct SortKey {
    /// The value.
    pub value: Expr,
    /// The direction.
    pub order: SortOrder,
}

/// `[ASC | DESC] [NULLS FIRST | LAST]`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SortOrder {
    /// DESC (true) or ASC (false).
    pub descending: Option<bool>,
    /// NULLS FIRST (true) or NULLS LAST (false).
    pub nulls_first: Option<bool>,
}

/// `LIMIT n`, `LIMIT n %`, `FETCH FIRST n ROWS WITH TIES`
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// The number.
    pub count: Expr,
    /// Whether it is a percentage.
    pub percent: bool,
    /// Whether rows that are equal to the last one follow.
    pub with_ties: bool,
}

/// What stands in FROM.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// What it is.
    pub kind: TableKind,
    /// Its name here.
    pub alias: Option<TableAlias>,
    /// The part of its rows that is read.
    pub sample: Option<Sample>,
    /// Where it stands.
    pub span: Span,
}

/// The forms of tables.
#[derive(Debug, Clone, PartialEq)]
pub enum TableKind {
    /// A table or view by its name.
    Named {
        /// The name.
        name: ObjectName,
        /// The version that is read.
        version: Option<Version>,
    },
    /// `'x.csv' (HEADER true)`
    File {
        /// The name of the file.
        path: String,
        /// How it is read.
        options: Vec<OptionItem>,
    },
    /// `f(…) [WITH ORDINALITY]`
    Call {
        /// The call.
        call: Box<Call>,
        /// Whether LATERAL stands before it.
        lateral: bool,
        /// Whether rows are numbered.
        ordinality: bool,
    },
    /// `(SELECT …)`
    Query {
        /// The query.
        query: Box<Query>,
        /// Whether LATERAL stands before it.
        lateral: bool,
    },
    /// `a JOIN b … JOIN c …`, from left to right.
    Join {
        /// The first table.
        first: Box<Table>,
        /// The joins, each with the table behind it; one at least.
        rest: Vec<Join>,
    },
    /// `t PIVOT (…)`
    Pivot(Box<Pivot>),
    /// `t UNPIVOT (…)`
    Unpivot(Box<Unpivot>),
    /// `(DESCRIBE t)`
    Listing(Box<Listing>),
}

/// A statement whose rows FROM reads.
#[derive(Debug, Clone, PartialEq)]
pub enum Listing {
    /// `DESCRIBE …`: a row per column.
    Describe(Described),
    /// `SUMMARIZE …`: statistics of each column.
    Summarize(Described),
    /// `SHOW TABLES`
    Tables,
    /// `SHOW ALL TABLES`
    AllTables,
}

/// `AT (VERSION => n)` or `AT (TIMESTAMP => t)`
#[derive(Debug, Clone, PartialEq)]
pub enum Version {
    /// The number of a commit.
    Number(Expr),
    /// A time.
    Time(Expr),
}

/// `AS name (columns)`
#[derive(Debug, Clone, PartialEq)]
pub struct TableAlias {
    /// The name.
    pub name: Name,
    /// The names of the columns, or of the first ones.
    pub columns: Vec<Name>,
}

/// A join and the table behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct Join {
    /// Which rows it returns.
    pub kind: JoinKind,
    /// Whether the last row of those that fit in order is joined.
    pub asof: bool,
    /// The table.
    pub table: Table,
    /// Which rows belong together.
    pub condition: JoinCondition,
    /// Where it stands.
    pub span: Span,
}

/// Kinds of joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    /// `SEMI` and `LEFT SEMI`
    Semi,
    RightSemi,
    /// `ANTI` and `LEFT ANTI`
    Anti,
    RightAnti,
    /// `CROSS JOIN`
    Cross,
    /// `POSITIONAL JOIN`
    Positional,
}

/// The condition of a join.
#[derive(Debug, Clone, PartialEq)]
pub enum JoinCondition {
    /// Of CROSS and POSITIONAL.
    None,
    /// `NATURAL`
    Natural,
    /// `ON condition`
    On(Box<Expr>),
    /// `USING (columns)`
    Using(Vec<Name>),
}

/// `10 PERCENT (bernoulli, 7)` behind TABLESAMPLE or USING SAMPLE.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The number.
    pub count: Expr,
    /// Whether it is a percentage.
    pub percent: bool,
    /// How rows are chosen.
    pub method: Option<Name>,
    /// What makes it repeatable.
    pub seed: Option<Expr>,
}

/// `PIVOT source ON columns USING aggregates GROUP BY keys`
#[derive(Debug, Clone, PartialEq)]
pub struct Pivot {
    /// The rows.
    pub source: Table,
    /// The columns whose values become columns.
    pub columns: Vec<PivotColumn>,
    /// The values of these columns.
    pub aggregates: Vec<SelectItem>,
    /// The columns that stay; all others without it.
    pub group_by: Vec<Expr>,
}

/// `value IN (…)` in a PIVOT.
#[derive(Debug, Clone, PartialEq)]
pub struct PivotColumn {
    /// The value.
    pub value: Expr,
    /// Its values; all without them.
    pub values: Option<PivotValues>,
}

/// The values of a column in a PIVOT.
#[derive(Debug, Clone, PartialEq)]
pub enum PivotValues {
    /// `(a, b AS c)`
    List(Vec<SelectItem>),
    /// `(SELECT …)`
    Query(Box<Query>),
}

/// `UNPIVOT source ON columns INTO NAME name VALUE values`
#[derive(Debug, Clone, PartialEq)]
pub struct Unpivot {
    /// The rows.
    pub source: Table,
    /// Whether rows with NULL are kept.
    pub include_nulls: bool,
    /// The columns, or rows of several, that become rows.
    pub columns: Vec<SelectItem>,
    /// The names of the new columns; `name` and `value` without them.
    pub into: Option<UnpivotNames>,
}

/// The columns that an UNPIVOT makes.
#[derive(Debug, Clone, PartialEq)]
pub struct UnpivotNames {
    /// The column of names.
    pub name: Name,
    /// The columns of values; one at least.
    pub values: Vec<Name>,
}
