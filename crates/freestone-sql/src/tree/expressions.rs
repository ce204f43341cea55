//! Expressions.

use super::{Name, ObjectName, Query, SortKey, Text, Type};
use crate::span::Span;

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it stands.
    pub span: Span,
}

/// The forms of expressions.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// A constant.
    Literal(Literal),
    /// `$1`, `$name` or `?`
    Parameter(Parameter),
    /// `a`, `t.a`, `s.t.a.field`: a column or alias, or fields of one.
    Column(ObjectName),
    /// `#1`: a column of FROM by its position.
    Position(u32),
    /// `*` or `t.*`, where a list of columns can stand.
    Star(Box<Star>),
    /// `COLUMNS(…)`: the columns that a star, a pattern, a list of names or a lambda selects.
    Columns(Box<Expr>),
    /// `*COLUMNS(…)`: a value for each of several columns, among arguments or the items of a list.
    Unpacked(Box<Expr>),
    /// `DEFAULT`, as a value that is assigned.
    Default,
    /// `current_date` and other words without parentheses.
    SessionValue(SessionValue),
    /// `-a`, `NOT a`
    Unary {
        /// The operator.
        operator: UnaryOperator,
        /// What it is applied to.
        operand: Box<Expr>,
    },
    /// `a + b - c`: operators of one precedence, from left to right.
    Chain {
        /// The first operand.
        first: Box<Expr>,
        /// The operators, each with the operand behind it; one at least.
        rest: Vec<Link>,
    },
    /// `a IS [NOT] NULL`, and TRUE, FALSE, UNKNOWN.
    Is {
        /// The value.
        operand: Box<Expr>,
        /// Whether NOT stands before the test.
        negated: bool,
        /// What it is compared with.
        test: IsTest,
    },
    /// `a [NOT] LIKE b [ESCAPE c]`
    Like {
        /// The value.
        operand: Box<Expr>,
        /// Whether NOT stands before the operator.
        negated: bool,
        /// The kind of pattern.
        operator: LikeOperator,
        /// The pattern.
        pattern: Box<Expr>,
        /// The escape character.
        escape: Option<Box<Expr>>,
    },
    /// `a [NOT] BETWEEN [SYMMETRIC] b AND c`
    Between {
        /// The value.
        operand: Box<Expr>,
        /// Whether NOT stands before BETWEEN.
        negated: bool,
        /// Whether the bounds may be in either order.
        symmetric: bool,
        /// The lower bound.
        low: Box<Expr>,
        /// The upper bound.
        high: Box<Expr>,
    },
    /// `a [NOT] IN …`
    In {
        /// The value.
        operand: Box<Expr>,
        /// Whether NOT stands before IN.
        negated: bool,
        /// Where it is looked for.
        set: InSet,
    },
    /// `a = ANY (…)`, `a < ALL (…)`, `a ~ ANY (…)`
    Quantified {
        /// The value.
        operand: Box<Expr>,
        /// The comparison, or the test of a regular expression.
        operator: BinaryOperator,
        /// Whether it must hold for all values; for one otherwise.
        all: bool,
        /// The values: a query or a list.
        values: Quantity,
    },
    /// `EXISTS (…)`
    Exists(Box<Query>),
    /// `(SELECT …)` as a value.
    Subquery(Box<Query>),
    /// `ARRAY(SELECT …)`
    ListOfQuery(Box<Query>),
    /// `CAST(a AS T)`, `TRY_CAST(a AS T)` and `a::T`.
    Cast {
        /// The value.
        operand: Box<Expr>,
        /// The type.
        data_type: Box<Type>,
        /// How it is written.
        form: CastForm,
    },
    /// `DATE '2024-01-01'`
    TypedText {
        /// The type.
        data_type: Box<Type>,
        /// The text.
        text: Text,
    },
    /// `INTERVAL '1' DAY`, `INTERVAL (a) HOUR`, `INTERVAL '1 day'`
    Interval {
        /// The amount, or a text with units.
        value: Box<Expr>,
        /// The unit.
        unit: Option<IntervalUnit>,
    },
    /// `a AT TIME ZONE b`
    AtTimeZone {
        /// The time.
        operand: Box<Expr>,
        /// The zone.
        zone: Box<Expr>,
    },
    /// `a COLLATE NOCASE.NOACCENT`
    Collate {
        /// The text.
        operand: Box<Expr>,
        /// The collations.
        collation: ObjectName,
    },
    /// `CASE … END`
    Case(Box<Case>),
    /// `f(…)`
    Call(Box<Call>),
    /// A call with keywords between its arguments.
    Special(Box<SpecialCall>),
    /// `(a, b)` or `ROW(a, b)`
    Row(Vec<Expr>),
    /// `[a, b]` or `ARRAY[a, b]`
    List(Vec<Expr>),
    /// `{'a': 1, 'b': 2}`
    Struct(Vec<(Name, Expr)>),
    /// `MAP {'a': 1}`
    Map(Vec<(Expr, Expr)>),
    /// `lambda x, y: x + y`, `x -> x + 1`
    Lambda {
        /// The parameters.
        parameters: Vec<Name>,
        /// The value.
        body: Box<Expr>,
    },
    /// `[a FOR x, i IN list IF b]`
    Comprehension(Box<Comprehension>),
    /// `(a).b`
    Field {
        /// The struct.
        operand: Box<Expr>,
        /// The field.
        name: Name,
    },
    /// `a[1]`
    Subscript {
        /// The list, map, struct or text.
        operand: Box<Expr>,
        /// The position or key.
        index: Box<Expr>,
    },
    /// `a[1:2]`, `a[1:-:2]`
    Slice(Box<Slice>),
}

/// A constant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Literal {
    /// NULL
    Null,
    /// TRUE or FALSE
    Boolean(bool),
    /// A number as it is written, without a sign.
    Number(String),
    /// A text in quotes of any kind, without its quotes and escapes.
    Text(String),
    /// `X'1F'`: the hexadecimal digits.
    Hexadecimal(String),
    /// `B'101'`: the binary digits.
    Bits(String),
}

/// A parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parameter {
    /// `?`
    Next,
    /// `$1`
    Number(u32),
    /// `$name`, as it is written.
    Name(String),
}

/// `t.* EXCLUDE (a) REPLACE (b AS c) RENAME (d AS e)`, `* LIKE 'pattern'`
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Star {
    /// The table or struct whose columns are meant; all tables without it.
    pub qualifier: Option<ObjectName>,
    /// Columns that are left out.
    pub exclude: Vec<ObjectName>,
    /// Columns that have other values.
    pub replace: Vec<(Expr, Name)>,
    /// Columns that have other names.
    pub rename: Vec<(ObjectName, Name)>,
    /// A pattern that the names match.
    pub like: Option<StarPattern>,
}

impl StarPattern {
    /// Whether groups of the pattern can be in the names of columns.
    pub fn has_groups(&self) -> bool {
        !self.negated && self.operator == LikeOperator::SimilarTo
    }
}

/// `[NOT] LIKE 'pattern' [ESCAPE 'character']` behind a star.
#[derive(Debug, Clone, PartialEq)]
pub struct StarPattern {
    /// Whether the names must not match.
    pub negated: bool,
    /// The kind of pattern.
    pub operator: LikeOperator,
    /// The pattern.
    pub pattern: Text,
    /// The escape character.
    pub escape: Option<Text>,
}

/// Values of the session that are written as a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SessionValue {
    CurrentCatalog,
    CurrentDate,
    CurrentRole,
    CurrentSchema,
    CurrentTime,
    CurrentTimestamp,
    CurrentUser,
    LocalTime,
    LocalTimestamp,
    SessionUser,
    User,
}

/// Operators before an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnaryOperator {
    /// `NOT`
    Not,
    /// `-`
    Minus,
    /// `+`
    Plus,
    /// `~`
    BitNot,
}

/// An operator and the operand behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// The operator.
    pub operator: BinaryOperator,
    /// Where the operator stands.
    pub span: Span,
    /// The operand.
    pub operand: Expr,
}

/// Operators between two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BinaryOperator {
    Or,
    And,
    IsDistinctFrom,
    IsNotDistinctFrom,
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
    Concat,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    /// `~`
    Match,
    /// `~*`
    MatchNoCase,
    /// `!~`
    NotMatch,
    /// `!~*`
    NotMatchNoCase,
    /// `~~`
    Like,
    /// `~~*`
    ILike,
    /// `!~~`
    NotLike,
    /// `!~~*`
    NotILike,
    /// `->`
    Arrow,
    /// `->>`
    LongArrow,
    /// `#>`
    HashArrow,
    /// `#>>`
    HashLongArrow,
    /// `#-`
    HashMinus,
    /// `@>`
    Contains,
    /// `<@`
    ContainedBy,
    /// `&&`
    Overlaps,
    /// `<->`
    Distance,
    /// `<=>`
    CosineDistance,
    /// `^@`
    StartsWith,
    Plus,
    Minus,
    Multiply,
    Divide,
    /// `//`
    IntegerDivide,
    Modulo,
    /// `^` or `**`
    Power,
}

/// What IS compares with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum IsTest {
    Null,
    True,
    False,
    Unknown,
}

/// Operators that compare a text with a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LikeOperator {
    Like,
    ILike,
    SimilarTo,
    Glob,
}

/// What stands behind IN.
#[derive(Debug, Clone, PartialEq)]
pub enum InSet {
    /// `(a, b)`
    Values(Vec<Expr>),
    /// `(SELECT …)`
    Query(Box<Query>),
    /// `[a, b]` or another list, without operators
    List(Box<Expr>),
}

/// What stands behind ANY and ALL.
#[derive(Debug, Clone, PartialEq)]
pub enum Quantity {
    /// `(SELECT …)`
    Query(Box<Query>),
    /// `(list)`
    List(Box<Expr>),
}

/// How a cast is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CastForm {
    /// `CAST(a AS T)`
    Cast,
    /// `TRY_CAST(a AS T)`
    TryCast,
    /// `a::T`
    Colons,
}

/// `DAY`, or `YEAR TO MONTH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntervalUnit {
    /// The unit, or the largest one.
    pub first: Unit,
    /// The smallest one.
    pub last: Option<Unit>,
}

/// Units of intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Unit {
    Millennium,
    Century,
    Decade,
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
}

/// `CASE [a] WHEN b THEN c … [ELSE d] END`
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The value that is compared.
    pub operand: Option<Expr>,
    /// Conditions or values, each with its result; one at least.
    pub branches: Vec<(Expr, Expr)>,
    /// The result if none applies.
    pub otherwise: Option<Expr>,
}

/// `receiver.name(DISTINCT arguments ORDER BY … IGNORE NULLS) WITHIN GROUP (…) FILTER (…) OVER (…)`
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The value before the point of a method call. If it is a column, it is part of the name: `t.a.upper()`.
    pub receiver: Option<Expr>,
    /// The function.
    pub name: ObjectName,
    /// Whether DISTINCT stands before the arguments.
    pub distinct: bool,
    /// The arguments.
    pub arguments: Vec<Argument>,
    /// The order of the rows.
    pub order_by: Vec<SortKey>,
    /// IGNORE NULLS (true) or RESPECT NULLS (false).
    pub ignore_nulls: Option<bool>,
    /// The order of WITHIN GROUP.
    pub within_group: Vec<SortKey>,
    /// The condition of FILTER.
    pub filter: Option<Expr>,
    /// The window.
    pub over: Option<Over>,
}

impl Call {
    /// A call without other clauses.
    pub fn of(name: ObjectName, arguments: Vec<Argument>) -> Call {
        Call {
            receiver: None,
            name,
            distinct: false,
            arguments,
            order_by: vec![],
            ignore_nulls: None,
            within_group: vec![],
            filter: None,
            over: None,
        }
    }
}

/// An argument of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Argument {
    /// The name in `name => value` and `name := value`.
    pub name: Option<Name>,
    /// The value.
    pub value: Expr,
}

/// What stands behind OVER.
#[derive(Debug, Clone, PartialEq)]
pub enum Over {
    /// The name of a window.
    Name(Name),
    /// `(…)`
    Window(Window),
}

/// `([base] [PARTITION BY …] [ORDER BY …] [frame])`
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// The window that this one extends.
    pub base: Option<Name>,
    /// The values that rows of a partition share.
    pub partition_by: Vec<Expr>,
    /// The order of the rows.
    pub order_by: Vec<SortKey>,
    /// The frame.
    pub frame: Option<Frame>,
    /// Where it stands.
    pub span: Span,
}

/// `ROWS BETWEEN a AND b EXCLUDE TIES`
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// What offsets count.
    pub unit: FrameUnit,
    /// Where it begins.
    pub start: FrameBound,
    /// Where it ends; at the current row without it.
    pub end: Option<FrameBound>,
    /// Rows that are left out.
    pub exclude: Option<FrameExclude>,
}

impl Frame {
    /// The offsets of its ends.
    pub fn offsets(&self) -> impl Iterator<Item = &Expr> {
        std::iter::once(&self.start).chain(&self.end).filter_map(|bound| match bound {
            FrameBound::Preceding(offset) | FrameBound::Following(offset) => Some(offset.as_ref()),
            FrameBound::UnboundedPreceding | FrameBound::CurrentRow | FrameBound::UnboundedFollowing => None,
        })
    }
}

/// What the offsets of a frame count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FrameUnit {
    Rows,
    Range,
    Groups,
}

/// An end of a frame.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum FrameBound {
    UnboundedPreceding,
    Preceding(Box<Expr>),
    CurrentRow,
    Following(Box<Expr>),
    UnboundedFollowing,
}

/// Rows that a frame leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FrameExclude {
    CurrentRow,
    Group,
    Ties,
    NoOthers,
}

/// Calls with keywords between their arguments.
#[derive(Debug, Clone, PartialEq)]
pub enum SpecialCall {
    /// `extract(part FROM value)`
    Extract {
        /// The part, in lower case.
        part: String,
        /// The time.
        value: Expr,
    },
    /// `position(needle IN value)`
    Position {
        /// The text that is looked for.
        needle: Expr,
        /// The text in which it is looked for.
        value: Expr,
    },
    /// `substring(value FROM start FOR length)`
    Substring {
        /// The text.
        value: Expr,
        /// The first character.
        start: Option<Expr>,
        /// The number of characters.
        length: Option<Expr>,
    },
    /// `trim(BOTH characters FROM value)`
    Trim {
        /// The side.
        side: TrimSide,
        /// The characters that are removed; spaces without them.
        characters: Option<Expr>,
        /// The text.
        value: Expr,
    },
    /// `overlay(value PLACING other FROM start FOR length)`
    Overlay {
        /// The text.
        value: Expr,
        /// What is put into it.
        other: Expr,
        /// Where.
        start: Expr,
        /// The number of characters that it replaces.
        length: Option<Expr>,
    },
}

/// The side of a trim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TrimSide {
    Both,
    Leading,
    Trailing,
}

/// `[value FOR item, position IN list IF condition]`
#[derive(Debug, Clone, PartialEq)]
pub struct Comprehension {
    /// The value of each item.
    pub value: Expr,
    /// The names of the item and of its position.
    pub names: Vec<Name>,
    /// The list.
    pub list: Expr,
    /// The condition of items that are kept.
    pub condition: Option<Expr>,
}

/// `operand[low:high:step]`
#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    /// The list or text.
    pub operand: Expr,
    /// The first position.
    pub low: Option<Expr>,
    /// The last position.
    pub high: Option<Expr>,
    /// The distance of positions.
    pub step: Option<Expr>,
}
