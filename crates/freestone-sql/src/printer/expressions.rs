//! Expressions as SQL.

use std::fmt::{Display, Formatter, Result};

use super::{Clause, Listed, Optional, Quoted, commas, when};
use crate::parser::Precedence;
use crate::tree::*;

/// An operand, in parentheses if it binds more weakly than what is around it.
struct Operand<'a>(&'a Expr, Precedence);

impl Display for Operand<'_> {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match !self.0.is_in_parens() && self.0.precedence() < self.1 {
            true => write!(f, "({})", self.0),
            false => self.0.fmt(f),
        }
    }
}

/// What stands before `.name` and `[…]`. Names and numbers would go on with a point, and the type of a cast with a bracket.
struct Base<'a>(&'a Expr, bool);

impl Display for Base<'_> {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let Base(expr, before_point) = self;
        let goes_on = match &expr.kind {
            ExprKind::Cast { form: CastForm::Colons, .. } => true,
            ExprKind::Column(_) | ExprKind::Position(_) | ExprKind::Literal(Literal::Number(_)) => *before_point,
            ExprKind::Interval { .. } => *before_point,
            ExprKind::Call(call) => *before_point && matches!(call.over, Some(Over::Name(_))),
            _ => false,
        };
        match goes_on && !expr.is_in_parens() {
            true => write!(f, "({expr})"),
            false => Operand(expr, Precedence::Suffix).fmt(f),
        }
    }
}

impl Expr {
    /// How strongly the operator of an expression binds.
    pub(crate) fn precedence(&self) -> Precedence {
        match &self.kind {
            ExprKind::Lambda { .. } => Precedence::Lambda,
            ExprKind::Unary { operator: UnaryOperator::Not, .. } => Precedence::Not,
            ExprKind::Unary { operator: UnaryOperator::BitNot, .. } => Precedence::Other,
            ExprKind::Unary { .. } => Precedence::Sign,
            ExprKind::Chain { rest, .. } => rest.first().map_or(Precedence::Primary, |link| link.operator.precedence()),
            ExprKind::Is { .. } => Precedence::Is,
            ExprKind::Like { .. } | ExprKind::Between { .. } | ExprKind::In { .. } => Precedence::Pattern,
            ExprKind::Quantified { operator, .. } => operator.precedence(),
            ExprKind::AtTimeZone { .. } => Precedence::AtTimeZone,
            ExprKind::Collate { .. } => Precedence::Collate,
            ExprKind::Cast { form: CastForm::Colons, .. } => Precedence::Suffix,
            _ => Precedence::Primary,
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let parens = self.span.parens();
        (0..parens).try_for_each(|_| f.write_str("("))?;
        self.fmt_bare(f)?;
        (0..parens).try_for_each(|_| f.write_str(")"))
    }
}

impl Expr {
    /// Its text without parentheses around it.
    pub fn bare_text(&self) -> String {
        struct Bare<'a>(&'a Expr);
        impl Display for Bare<'_> {
            fn fmt(&self, f: &mut Formatter) -> Result {
                self.0.fmt_bare(f)
            }
        }
        Bare(self).to_string()
    }

    /// Whether parentheses are written around it.
    fn is_in_parens(&self) -> bool {
        self.span.parens() > 0
    }

    fn fmt_bare(&self, f: &mut Formatter) -> Result {
        use Precedence as P;
        let not = |negated: bool| when(negated, "NOT ");
        match &self.kind {
            ExprKind::Unary { operator, operand } => unary(f, *operator, operand),
            ExprKind::Chain { first, rest } => chain(f, first, rest),
            ExprKind::Is { operand, negated, test } => {
                write!(f, "{} IS {}{}", Operand(operand, P::Is), not(*negated), test.word())
            }
            ExprKind::Like { operand, negated, operator, pattern, escape } => {
                let (left, right) = (Operand(operand, P::Other), Operand(pattern, P::Other));
                write!(f, "{left} {}{} {right}", not(*negated), operator.words())?;
                let escape = escape.as_ref().map(|escape| Operand(escape, P::Other));
                Optional(" ESCAPE ", &escape).fmt(f)
            }
            ExprKind::Between { operand, negated, symmetric, low, high } => {
                let symmetric = when(*symmetric, "SYMMETRIC ");
                let [operand, low, high] = [operand, low, high].map(|part| Operand(part, P::Other));
                write!(f, "{operand} {}BETWEEN {symmetric}{low} AND {high}", not(*negated))
            }
            ExprKind::In { operand, negated, set } => {
                write!(f, "{} {}IN {set}", Operand(operand, P::Other), not(*negated))
            }
            ExprKind::Quantified { operand, operator, all, values } => {
                let word = if *all { "ALL" } else { "ANY" };
                let operand = Operand(operand, operator.precedence().next());
                write!(f, "{operand} {} {word}{values}", operator.text())
            }
            ExprKind::AtTimeZone { operand, zone } => {
                write!(f, "{} AT TIME ZONE {}", Operand(operand, P::AtTimeZone), Operand(zone, P::Collate))
            }
            ExprKind::Collate { operand, collation } => {
                write!(f, "{} COLLATE {collation}", Operand(operand, P::Collate))
            }
            ExprKind::Cast { operand, data_type, form: CastForm::Colons } => {
                write!(f, "{}::{data_type}", Operand(operand, P::Suffix))
            }
            ExprKind::Field { operand, name } => write!(f, "{}.{name}", Base(operand, true)),
            ExprKind::Subscript { operand, index } => write!(f, "{}[{index}]", Base(operand, false)),
            ExprKind::Slice(slice) => slice.fmt(f),
            _ => self.fmt_primary(f),
        }
    }

    /// Prints the forms without operators.
    fn fmt_primary(&self, f: &mut Formatter) -> Result {
        match &self.kind {
            ExprKind::Literal(literal) => literal.fmt(f),
            ExprKind::Parameter(parameter) => parameter.fmt(f),
            ExprKind::Column(name) => name.fmt(f),
            ExprKind::Position(position) => write!(f, "#{position}"),
            ExprKind::Star(star) => star.fmt(f),
            ExprKind::Columns(columns) => write!(f, "COLUMNS({columns})"),
            ExprKind::Unpacked(columns) => write!(f, "*COLUMNS({columns})"),
            ExprKind::Default => f.write_str("DEFAULT"),
            ExprKind::SessionValue(value) => f.write_str(value.word()),
            ExprKind::Exists(query) => write!(f, "EXISTS ({query})"),
            ExprKind::Subquery(query) => write!(f, "({query})"),
            ExprKind::ListOfQuery(query) => write!(f, "ARRAY({query})"),
            ExprKind::Cast { operand, data_type, form } => {
                let word = if *form == CastForm::TryCast { "TRY_CAST" } else { "CAST" };
                write!(f, "{word}({operand} AS {data_type})")
            }
            ExprKind::TypedText { data_type, text } => write!(f, "{data_type} {text}"),
            ExprKind::Interval { value, unit } => interval(f, value, *unit),
            ExprKind::Case(case) => case.fmt(f),
            ExprKind::Call(call) => call.fmt(f),
            ExprKind::Special(call) => call.fmt(f),
            ExprKind::Row(items) if items.len() > 1 => write!(f, "({})", commas(items)),
            ExprKind::Row(items) => write!(f, "ROW({})", commas(items)),
            ExprKind::List(items) => write!(f, "[{}]", commas(items)),
            ExprKind::Struct(fields) => {
                let fields: Vec<StructField> = fields.iter().map(|(name, value)| StructField(name, value)).collect();
                write!(f, "{{{}}}", commas(&fields))
            }
            ExprKind::Map(entries) => {
                let entries: Vec<Entry> = entries.iter().map(|(key, value)| Entry(key, value)).collect();
                write!(f, "MAP {{{}}}", commas(&entries))
            }
            ExprKind::Lambda { parameters, body } => write!(f, "lambda {}: {body}", commas(parameters)),
            ExprKind::Comprehension(comprehension) => comprehension.fmt(f),
            // The other forms are printed with their operators.
            _ => Ok(()),
        }
    }
}

struct StructField<'a>(&'a Name, &'a Expr);

impl Display for StructField<'_> {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self.0.quoted {
            true => write!(f, "{}: {}", Quoted(&self.0.text), self.1),
            false => write!(f, "{}: {}", self.0, self.1),
        }
    }
}

struct Entry<'a>(&'a Expr, &'a Expr);

impl Display for Entry<'_> {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "{}: {}", Operand(self.0, Precedence::Or), self.1)
    }
}

fn unary(f: &mut Formatter, operator: UnaryOperator, operand: &Expr) -> Result {
    let is_sign = |expr: &Expr| {
        matches!(&expr.kind, ExprKind::Unary { operator: UnaryOperator::Minus | UnaryOperator::Plus, .. })
    };
    match operator {
        UnaryOperator::Not => write!(f, "NOT {}", Operand(operand, Precedence::Not)),
        UnaryOperator::BitNot => write!(f, "~{}", Operand(operand, Precedence::Sum)),
        UnaryOperator::Minus | UnaryOperator::Plus => {
            let sign = if operator == UnaryOperator::Minus { "-" } else { "+" };
            // Two signs would begin a comment.
            let space = when(is_sign(operand), " ");
            write!(f, "{sign}{space}{}", Operand(operand, Precedence::Sign))
        }
    }
}

fn chain(f: &mut Formatter, first: &Expr, rest: &[Link]) -> Result {
    let precedence = rest.first().map_or(Precedence::Primary, |link| link.operator.precedence());
    // Comparisons have no order, so both operands bind more strongly.
    let of_first = if precedence == Precedence::Comparison { precedence.next() } else { precedence };
    Operand(first, of_first).fmt(f)?;
    for link in rest {
        write!(f, " {} {}", link.operator.text(), Operand(&link.operand, precedence.next()))?;
    }
    Ok(())
}

fn interval(f: &mut Formatter, value: &Expr, unit: Option<IntervalUnit>) -> Result {
    let is_plain = match &value.kind {
        ExprKind::Literal(Literal::Number(_) | Literal::Text(_)) | ExprKind::Parameter(_) => true,
        ExprKind::Column(name) => name.parts.len() == 1,
        ExprKind::Unary { operator: UnaryOperator::Minus, operand } => {
            matches!(operand.kind, ExprKind::Literal(Literal::Number(_)))
        }
        _ => false,
    };
    match is_plain || value.is_in_parens() {
        true => write!(f, "INTERVAL {value}")?,
        false => write!(f, "INTERVAL ({value})")?,
    }
    let Some(IntervalUnit { first, last }) = unit else { return Ok(()) };
    write!(f, " {}", first.word())?;
    last.map_or(Ok(()), |last| write!(f, " TO {}", last.word()))
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            Literal::Null => f.write_str("NULL"),
            Literal::Boolean(true) => f.write_str("true"),
            Literal::Boolean(false) => f.write_str("false"),
            Literal::Number(number) => f.write_str(number),
            Literal::Text(text) => Quoted(text).fmt(f),
            Literal::Hexadecimal(digits) => write!(f, "X'{digits}'"),
            Literal::Bits(digits) => write!(f, "B'{digits}'"),
        }
    }
}

impl Display for Parameter {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            Parameter::Next => f.write_str("?"),
            Parameter::Number(number) => write!(f, "${number}"),
            Parameter::Name(name) => write!(f, "${name}"),
        }
    }
}

impl Display for Star {
    fn fmt(&self, f: &mut Formatter) -> Result {
        if let Some(qualifier) = &self.qualifier {
            write!(f, "{qualifier}.")?;
        }
        write!(f, "*{}", Listed(" EXCLUDE ", &self.exclude))?;
        let replaced: Vec<String> = self.replace.iter().map(|(value, name)| format!("{value} AS {name}")).collect();
        let renamed: Vec<String> = self.rename.iter().map(|(column, name)| format!("{column} AS {name}")).collect();
        write!(f, "{}{}", Listed(" REPLACE ", &replaced), Listed(" RENAME ", &renamed))?;
        match &self.like {
            None => Ok(()),
            Some(StarPattern { negated, operator, pattern, escape }) => {
                write!(f, " {}{} {pattern}", when(*negated, "NOT "), operator.words())?;
                Optional(" ESCAPE ", escape).fmt(f)
            }
        }
    }
}

impl Display for InSet {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            InSet::Values(values) => write!(f, "({})", commas(values)),
            InSet::Query(query) => write!(f, "({query})"),
            InSet::List(list) => Operand(list, Precedence::Suffix).fmt(f),
        }
    }
}

impl Display for Quantity {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            Quantity::Query(query) => write!(f, "({query})"),
            Quantity::List(list) => write!(f, "({list})"),
        }
    }
}

impl Display for Slice {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let Slice { operand, low, high, step } = self;
        // A lambda would take the colon behind it, and is no position.
        let position = |part: &Option<Expr>| part.as_ref().map(|part| Operand(part, Precedence::Or).to_string());
        let (low, high) = (position(low).unwrap_or_default(), position(high));
        let missing = if step.is_some() { "-" } else { "" };
        let high = high.unwrap_or_else(|| missing.to_owned());
        write!(f, "{}[{low}:{high}{}]", Base(operand, false), Optional(":", step))
    }
}

impl Display for Case {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "CASE{}", Optional(" ", &self.operand))?;
        for (condition, result) in &self.branches {
            write!(f, " WHEN {condition} THEN {result}")?;
        }
        write!(f, "{} END", Optional(" ELSE ", &self.otherwise))
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut Formatter) -> Result {
        if let Some(receiver) = &self.receiver {
            write!(f, "{}.", Base(receiver, true))?;
        }
        let distinct = when(self.distinct, "DISTINCT ");
        write!(f, "{}({distinct}", self.name)?;
        for (at, argument) in self.arguments.iter().enumerate() {
            let comma = when(at > 0, ", ");
            // `(x) -> a` in parentheses of its own is the operator of JSON.
            let is_json = begins_with_arrow(&argument.value) && !argument.value.is_in_parens();
            match self.takes_lambdas() && is_json {
                true => {
                    let name = argument.name.as_ref().map_or(String::new(), |name| format!("{name} := "));
                    write!(f, "{comma}{name}({})", argument.value)?;
                }
                false => write!(f, "{comma}{argument}")?,
            }
        }
        write!(f, "{})", Clause(if self.arguments.is_empty() { "ORDER BY " } else { " ORDER BY " }, &self.order_by))?;
        if !self.within_group.is_empty() {
            write!(f, " WITHIN GROUP (ORDER BY {})", commas(&self.within_group))?;
        }
        if let Some(filter) = &self.filter {
            write!(f, " FILTER (WHERE {filter})")?;
        }
        match self.ignore_nulls {
            Some(true) => f.write_str(" IGNORE NULLS")?,
            Some(false) => f.write_str(" RESPECT NULLS")?,
            None => {}
        }
        match &self.over {
            None => Ok(()),
            Some(Over::Name(name)) => write!(f, " OVER {name}"),
            Some(Over::Window(window)) => write!(f, " OVER {window}"),
        }
    }
}

/// Whether an expression begins like a lambda: with a name, or names in parentheses, and an arrow.
fn begins_with_arrow(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Chain { first, rest } => {
            let is_name = |expr: &Expr| matches!(&expr.kind, ExprKind::Column(name) if name.parts.len() == 1);
            let is_parameters = match &first.kind {
                ExprKind::Row(names) => names.iter().all(is_name),
                _ => is_name(first),
            };
            let is_arrow = rest.first().is_some_and(|link| link.operator == BinaryOperator::Arrow);
            is_parameters && is_arrow || begins_with_arrow(first)
        }
        ExprKind::Is { operand, .. }
        | ExprKind::Like { operand, .. }
        | ExprKind::Between { operand, .. }
        | ExprKind::In { operand, .. }
        | ExprKind::Quantified { operand, .. } => begins_with_arrow(operand),
        _ => false,
    }
}

impl Display for Argument {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match &self.name {
            Some(name) => write!(f, "{name} := {}", self.value),
            None => self.value.fmt(f),
        }
    }
}

impl Display for Window {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let base = self.base.as_ref().map(ToString::to_string);
        let partition = Clause("PARTITION BY ", &self.partition_by).to_string();
        let order = Clause("ORDER BY ", &self.order_by).to_string();
        let frame = self.frame.as_ref().map(ToString::to_string);
        let parts = [base.unwrap_or_default(), partition, order, frame.unwrap_or_default()];
        let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        write!(f, "({})", parts.join(" "))
    }
}

impl Display for Frame {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let unit = match self.unit {
            FrameUnit::Rows => "ROWS",
            FrameUnit::Range => "RANGE",
            FrameUnit::Groups => "GROUPS",
        };
        match &self.end {
            Some(end) => write!(f, "{unit} BETWEEN {} AND {end}", self.start)?,
            None => write!(f, "{unit} {}", self.start)?,
        }
        f.write_str(match self.exclude {
            None => "",
            Some(FrameExclude::CurrentRow) => " EXCLUDE CURRENT ROW",
            Some(FrameExclude::Group) => " EXCLUDE GROUP",
            Some(FrameExclude::Ties) => " EXCLUDE TIES",
            Some(FrameExclude::NoOthers) => " EXCLUDE NO OTHERS",
        })
    }
}

impl Display for FrameBound {
    fn fmt(&self, f: &mut Formatter) -> Result {
        // AND ends the first bound.
        match self {
            FrameBound::UnboundedPreceding => f.write_str("UNBOUNDED PRECEDING"),
            FrameBound::Preceding(offset) => write!(f, "{} PRECEDING", Operand(offset, Precedence::Other)),
            FrameBound::CurrentRow => f.write_str("CURRENT ROW"),
            FrameBound::Following(offset) => write!(f, "{} FOLLOWING", Operand(offset, Precedence::Other)),
            FrameBound::UnboundedFollowing => f.write_str("UNBOUNDED FOLLOWING"),
        }
    }
}

impl Display for SpecialCall {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            SpecialCall::Extract { part, value } => {
                let is_word = part.starts_with(|c: char| c.is_ascii_lowercase())
                    && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                match is_word {
                    true => write!(f, "EXTRACT({} FROM {value})", part.to_ascii_uppercase()),
                    false => write!(f, "EXTRACT({} FROM {value})", Quoted(part)),
                }
            }
            SpecialCall::Position { needle, value } => {
                write!(f, "POSITION({} IN {value})", Operand(needle, Precedence::Other))
            }
            SpecialCall::Substring { value, start, length } => {
                write!(f, "SUBSTRING({value}{}{})", Optional(" FROM ", start), Optional(" FOR ", length))
            }
            SpecialCall::Trim { side, characters, value } => {
                let side = match side {
                    TrimSide::Both => "BOTH",
                    TrimSide::Leading => "LEADING",
                    TrimSide::Trailing => "TRAILING",
                };
                write!(f, "TRIM({side}{} FROM {value})", Optional(" ", characters))
            }
            SpecialCall::Overlay { value, other, start, length } => {
                write!(f, "OVERLAY({value} PLACING {other} FROM {start}{})", Optional(" FOR ", length))
            }
        }
    }
}

impl Display for Comprehension {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let names = commas(&self.names);
        write!(f, "[{} FOR {names} IN {}{}]", self.value, self.list, Optional(" IF ", &self.condition))
    }
}

impl SessionValue {
    fn word(self) -> &'static str {
        match self {
            SessionValue::CurrentCatalog => "current_catalog",
            SessionValue::CurrentDate => "current_date",
            SessionValue::CurrentRole => "current_role",
            SessionValue::CurrentSchema => "current_schema",
            SessionValue::CurrentTime => "current_time",
            SessionValue::CurrentTimestamp => "current_timestamp",
            SessionValue::CurrentUser => "current_user",
            SessionValue::LocalTime => "localtime",
            SessionValue::LocalTimestamp => "localtimestamp",
            SessionValue::SessionUser => "session_user",
            SessionValue::User => "user",
        }
    }
}

impl IsTest {
    fn word(self) -> &'static str {
        match self {
            IsTest::Null => "NULL",
            IsTest::True => "TRUE",
            IsTest::False => "FALSE",
            IsTest::Unknown => "UNKNOWN",
        }
    }
}

impl LikeOperator {
    fn words(self) -> &'static str {
        match self {
            LikeOperator::Like => "LIKE",
            LikeOperator::ILike => "ILIKE",
            LikeOperator::SimilarTo => "SIMILAR TO",
            LikeOperator::Glob => "GLOB",
        }
    }
}

macro_rules! units {
    ($($unit:ident $word:literal $($other:literal)*;)*) => {
        impl Unit {
            /// The word of a unit.
            pub fn word(self) -> &'static str {
                match self {
                    $(Unit::$unit => $word,)*
                }
            }

            /// The unit of a word, in the singular or the plural.
            pub(crate) fn of(word: &str) -> Option<Unit> {
                $(if [$word $(, $other)*].iter().any(|known| known.eq_ignore_ascii_case(word)) {
                    return Some(Unit::$unit);
                })*
                None
            }
        }
    };
}

units! {
    Millennium "MILLENNIUM" "MILLENNIUMS" "MILLENNIA";
    Century "CENTURY" "CENTURIES";
    Decade "DECADE" "DECADES";
    Year "YEAR" "YEARS";
    Quarter "QUARTER" "QUARTERS";
    Month "MONTH" "MONTHS";
    Week "WEEK" "WEEKS";
    Day "DAY" "DAYS";
    Hour "HOUR" "HOURS";
    Minute "MINUTE" "MINUTES";
    Second "SECOND" "SECONDS";
    Millisecond "MILLISECOND" "MILLISECONDS";
    Microsecond "MICROSECOND" "MICROSECONDS";
    Nanosecond "NANOSECOND" "NANOSECONDS";
}

macro_rules! binary {
    ($($operator:ident $text:literal)*) => {
        impl BinaryOperator {
            /// The operator as it is written.
            pub fn text(self) -> &'static str {
                match self {
                    $(BinaryOperator::$operator => $text,)*
                }
            }
        }
    };
}

binary! {
    Or "OR" And "AND" IsDistinctFrom "IS DISTINCT FROM" IsNotDistinctFrom "IS NOT DISTINCT FROM"
    Eq "=" NotEq "<>" Lt "<" LtEq "<=" Gt ">" GtEq ">="
    Concat "||" BitAnd "&" BitOr "|" BitXor "#" ShiftLeft "<<" ShiftRight ">>"
    Match "~" MatchNoCase "~*" NotMatch "!~" NotMatchNoCase "!~*"
    Like "~~" ILike "~~*" NotLike "!~~" NotILike "!~~*"
    Arrow "->" LongArrow "->>" HashArrow "#>" HashLongArrow "#>>" HashMinus "#-"
    Contains "@>" ContainedBy "<@" Overlaps "&&" Distance "<->" CosineDistance "<=>" StartsWith "^@"
    Plus "+" Minus "-" Multiply "*" Divide "/" IntegerDivide "//" Modulo "%" Power "^"
}
