//! Operators, by PostgreSQL's precedences (its manual, section 4.1.6).

use super::primary::Parens;
use super::{Parsed, Parser};
use crate::keyword::{Class, Keyword as K};
use crate::lexer::{Op, TokenKind};
use crate::span::Span;
use crate::tree::{
    Argument, BinaryOperator, Call, Expr, ExprKind, InSet, IsTest, LikeOperator, Link, Name, ObjectName, Quantity,
    SessionValue, UnaryOperator,
};

/// How strongly operators bind, from the weakest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Precedence {
    Lambda,
    Or,
    And,
    Not,
    Is,
    Comparison,
    /// LIKE, IN, BETWEEN
    Pattern,
    /// `||`, `&`, `~` and all operators without a place of their own.
    Other,
    Sum,
    Product,
    Power,
    AtTimeZone,
    Collate,
    Sign,
    /// `::`, `[…]`, `.name`
    Suffix,
    Primary,
}

impl Precedence {
    /// The next stronger one.
    pub(crate) fn next(self) -> Precedence {
        use Precedence::*;
        match self {
            Lambda => Or,
            Or => And,
            And => Not,
            Not => Is,
            Is => Comparison,
            Comparison => Pattern,
            Pattern => Other,
            Other => Sum,
            Sum => Product,
            Product => Power,
            Power => AtTimeZone,
            AtTimeZone => Collate,
            Collate => Sign,
            Sign => Suffix,
            Suffix | Primary => Primary,
        }
    }
}

/// An operator behind its first operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Infix {
    Binary(BinaryOperator),
    Is,
    IsNull { negated: bool },
    Like { negated: bool, operator: LikeOperator },
    Between { negated: bool },
    In { negated: bool },
    AtTimeZone,
    Collate,
}

impl Infix {
    fn precedence(self) -> Precedence {
        match self {
            Infix::Binary(operator) => operator.precedence(),
            Infix::Is | Infix::IsNull { .. } => Precedence::Is,
            Infix::Like { .. } | Infix::Between { .. } | Infix::In { .. } => Precedence::Pattern,
            Infix::AtTimeZone => Precedence::AtTimeZone,
            Infix::Collate => Precedence::Collate,
        }
    }
}

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        self.operators(Precedence::Or)
    }

    pub(super) fn boxed_expression(&mut self) -> Parsed<Box<Expr>> {
        self.expression().map(Box::new)
    }

    /// An expression of operators that bind at least so strongly.
    pub(super) fn operators(&mut self, weakest: Precedence) -> Parsed<Expr> {
        // As in `with_own_depth`, but without a frame more on the stack.
        let before = std::mem::take(&mut self.levels);
        let start = self.span();
        let mut left = self.operand()?;
        while let Some(infix) = self.infix()
            && infix.precedence() >= weakest
        {
            let kind = self.applied(infix, left)?;
            self.deepen()?;
            left = Expr { kind, span: self.since(start) };
            self.refuse_second(infix)?;
        }
        self.levels = self.levels.max(before);
        Ok(left)
    }

    /// An operand with the signs and NOTs before it.
    fn operand(&mut self) -> Parsed<Expr> {
        let (operator, weakest) = match self.peek() {
            TokenKind::Word(Some(K::NOT)) => (UnaryOperator::Not, Precedence::Not),
            TokenKind::Op(Op::Minus) => (UnaryOperator::Minus, Precedence::Sign),
            TokenKind::Op(Op::Plus) => (UnaryOperator::Plus, Precedence::Sign),
            TokenKind::Op(Op::Tilde) => (UnaryOperator::BitNot, Precedence::Other.next()),
            TokenKind::Op(Op::At) => return self.called_by_sign("abs"),
            TokenKind::Op(Op::SquareRoot) => return self.called_by_sign("sqrt"),
            TokenKind::Op(Op::CubeRoot) => return self.called_by_sign("cbrt"),
            _ => return self.suffixed(),
        };
        let start = self.advance();
        let operand = Box::new(self.nest(|parser| parser.operators(weakest))?);
        Ok(Expr { kind: ExprKind::Unary { operator, operand }, span: self.since(start) })
    }

    /// A sign before its operand that is another name of a function.
    fn called_by_sign(&mut self, function: &str) -> Parsed<Expr> {
        let span = self.advance();
        let value = self.nest(|parser| parser.operators(Precedence::Other.next()))?;
        let name = Name { text: function.to_owned(), quoted: false, span };
        let call = Call::of(ObjectName { parts: vec![name], span }, vec![Argument { name: None, value }]);
        Ok(Expr { kind: ExprKind::Call(Box::new(call)), span: self.since(span) })
    }

    /// The operator at this position.
    fn infix(&self) -> Option<Infix> {
        let keyword = match self.peek() {
            TokenKind::Op(op) => {
                let operator = binary(op)?;
                // In `LIMIT 10 %`, it is no operator.
                let is_operator = op != Op::Percent || self.begins_operand(1);
                return is_operator.then_some(Infix::Binary(operator));
            }
            TokenKind::Word(keyword) => keyword?,
            _ => return None,
        };
        match keyword {
            K::OR => Some(Infix::Binary(BinaryOperator::Or)),
            K::AND => Some(Infix::Binary(BinaryOperator::And)),
            K::IS if self.is_at(1, K::DISTINCT) => Some(Infix::Binary(BinaryOperator::IsDistinctFrom)),
            K::IS if self.is_at(1, K::NOT) && self.is_at(2, K::DISTINCT) => {
                Some(Infix::Binary(BinaryOperator::IsNotDistinctFrom))
            }
            K::IS => Some(Infix::Is),
            K::ISNULL => Some(Infix::IsNull { negated: false }),
            K::NOTNULL => Some(Infix::IsNull { negated: true }),
            K::COLLATE => Some(Infix::Collate),
            K::OPERATOR => self.named_operator().map(|(operator, _)| Infix::Binary(operator)),
            K::AT if self.is_at(1, K::TIME) && self.is_at(2, K::ZONE) => Some(Infix::AtTimeZone),
            K::NOT => self.pattern(1, true),
            _ => self.pattern(0, false),
        }
    }

    /// LIKE, BETWEEN or IN at a distance.
    fn pattern(&self, ahead: usize, negated: bool) -> Option<Infix> {
        let like = |operator| Some(Infix::Like { negated, operator });
        match self.keyword(ahead)? {
            K::LIKE => like(LikeOperator::Like),
            K::ILIKE => like(LikeOperator::ILike),
            K::SIMILAR if self.is_at(ahead + 1, K::TO) => like(LikeOperator::SimilarTo),
            K::GLOB if self.begins_operand(ahead + 1) => like(LikeOperator::Glob),
            K::BETWEEN => Some(Infix::Between { negated }),
            K::IN => Some(Infix::In { negated }),
            _ => None,
        }
    }

    /// The expression of an operator at this position, whose first operand was parsed.
    fn applied(&mut self, infix: Infix, left: Expr) -> Parsed<ExprKind> {
        let operand = Box::new(left);
        let negated = self.is(K::NOT);
        if negated {
            self.advance();
        }
        match infix {
            Infix::Binary(operator) => return self.chain(*operand, operator),
            Infix::Is => return self.is_test(operand),
            Infix::IsNull { negated } => {
                self.advance();
                return Ok(ExprKind::Is { operand, negated, test: IsTest::Null });
            }
            Infix::Collate => {
                self.advance();
                let collation = self.object_name("a collation")?;
                return Ok(ExprKind::Collate { operand, collation });
            }
            Infix::AtTimeZone => {
                self.at += 3;
                let zone = Box::new(self.operators(Precedence::AtTimeZone.next())?);
                return Ok(ExprKind::AtTimeZone { operand, zone });
            }
            Infix::Like { .. } | Infix::Between { .. } | Infix::In { .. } => {}
        }
        self.advance();
        match infix {
            Infix::Like { operator, .. } => self.like(operand, negated, operator),
            Infix::Between { .. } => {
                let symmetric = self.accept(K::SYMMETRIC);
                if !symmetric {
                    self.accept(K::ASYMMETRIC);
                }
                let low = Box::new(self.operators(Precedence::Pattern.next())?);
                self.expect(K::AND)?;
                let high = Box::new(self.operators(Precedence::Pattern.next())?);
                Ok(ExprKind::Between { operand, negated, symmetric, low, high })
            }
            _ => {
                let set = self.in_set()?;
                Ok(ExprKind::In { operand, negated, set })
            }
        }
    }

    /// Operators of one precedence with their operands, or an operator before ANY or ALL.
    fn chain(&mut self, first: Expr, mut operator: BinaryOperator) -> Parsed<ExprKind> {
        let precedence = operator.precedence();
        let mut rest: Vec<Link> = vec![];
        loop {
            let span = self.take_operator(operator)?;
            if operator.takes_quantity() && self.is_any(&[K::ANY, K::SOME, K::ALL]) {
                let operand = match rest.last() {
                    None => first,
                    Some(last) => {
                        let span = first.span.to(last.operand.span);
                        Expr { kind: ExprKind::Chain { first: Box::new(first), rest }, span }
                    }
                };
                return self.quantified(operand, operator);
            }
            let operand = self.operators(precedence.next())?;
            rest.push(Link { operator, span, operand });
            match self.infix() {
                Some(Infix::Binary(next))
                    if next.precedence() == precedence && precedence != Precedence::Comparison =>
                {
                    operator = next;
                }
                _ => return Ok(ExprKind::Chain { first: Box::new(first), rest }),
            }
        }
    }

    /// The operator of `OPERATOR(pg_catalog.~)`, and the number of its tokens.
    fn named_operator(&self) -> Option<(BinaryOperator, usize)> {
        let mut ahead = 2;
        while self.is_label_at(ahead) && self.is_op_at(ahead + 1, Op::Dot) {
            ahead += 2;
        }
        let TokenKind::Op(op) = self.peek_at(ahead) else { return None };
        let is_whole = self.is_op_at(1, Op::LeftParen) && self.is_op_at(ahead + 1, Op::RightParen);
        is_whole.then(|| binary(op)).flatten().map(|operator| (operator, ahead + 2))
    }

    fn take_operator(&mut self, operator: BinaryOperator) -> Parsed<Span> {
        let named = if self.is(K::OPERATOR) { self.named_operator() } else { None };
        let start = self.advance();
        if let Some((_, tokens)) = named {
            self.at += tokens - 1;
            return Ok(self.since(start));
        }
        match operator {
            BinaryOperator::IsDistinctFrom => self.expect_all(&[K::DISTINCT, K::FROM])?,
            BinaryOperator::IsNotDistinctFrom => self.expect_all(&[K::NOT, K::DISTINCT, K::FROM])?,
            _ => {}
        }
        Ok(self.since(start))
    }

    /// `ANY (…)` behind an operator.
    fn quantified(&mut self, operand: Expr, operator: BinaryOperator) -> Parsed<ExprKind> {
        let all = self.is(K::ALL);
        self.advance();
        let values = match self.parens()? {
            Parens::Query(query) => Quantity::Query(query),
            Parens::Values(mut values) => match (values.pop(), values.is_empty()) {
                (Some(list), true) => Quantity::List(Box::new(list)),
                _ => return Err(self.error("ANY and ALL take a query or one list")),
            },
        };
        Ok(ExprKind::Quantified { operand: Box::new(operand), operator, all, values })
    }

    fn is_test(&mut self, operand: Box<Expr>) -> Parsed<ExprKind> {
        self.advance();
        let negated = self.accept(K::NOT);
        if self.is(K::JSON) || self.is(K::NORMALIZED) {
            return self.refused_here("this test", "there are NULL, TRUE, FALSE, UNKNOWN and DISTINCT FROM");
        }
        let test = match self.accept_any(&[K::NULL, K::TRUE, K::FALSE, K::UNKNOWN]) {
            Some(K::NULL) => IsTest::Null,
            Some(K::TRUE) => IsTest::True,
            Some(K::FALSE) => IsTest::False,
            Some(_) => IsTest::Unknown,
            None => return Err(self.expected_any(&["NULL", "TRUE", "FALSE", "UNKNOWN", "DISTINCT FROM"])),
        };
        Ok(ExprKind::Is { operand, negated, test })
    }

    fn like(&mut self, operand: Box<Expr>, negated: bool, operator: LikeOperator) -> Parsed<ExprKind> {
        if operator == LikeOperator::SimilarTo {
            self.expect(K::TO)?;
        }
        if self.is_any(&[K::ANY, K::ALL, K::SOME]) {
            return self.refused_here("LIKE ANY", "write a LIKE b OR a LIKE c");
        }
        let pattern = Box::new(self.operators(Precedence::Pattern.next())?);
        let escape = match self.accept(K::ESCAPE) {
            true => Some(Box::new(self.operators(Precedence::Pattern.next())?)),
            false => None,
        };
        Ok(ExprKind::Like { operand, negated, operator, pattern, escape })
    }

    fn in_set(&mut self) -> Parsed<InSet> {
        let start = self.span();
        let list = match self.is_op(Op::LeftParen) {
            false => self.suffixed()?,
            true => match self.parens()? {
                Parens::Query(query) => return Ok(InSet::Query(query)),
                Parens::Values(mut values) => match values.pop() {
                    // `(a).b` is a list, and not the values in the parentheses.
                    Some(value) if values.is_empty() && self.begins_suffix() => self.suffixes(value, start)?,
                    value => {
                        values.extend(value);
                        return Ok(InSet::Values(values));
                    }
                },
            },
        };
        if self.infix().is_some_and(|infix| infix.precedence() > Precedence::Pattern) {
            let mut error = self.expected("AND, OR or the end of the condition");
            error.hint = Some("write a = ANY (list) for a list with operators".to_owned());
            return Err(error);
        }
        Ok(InSet::List(Box::new(list)))
    }

    /// Refuses `a < b < c` and the like, which have no order.
    fn refuse_second(&self, first: Infix) -> Parsed<()> {
        let precedence = first.precedence();
        let second = self.infix().filter(|second| second.precedence() == precedence);
        if second.is_none() || !matches!(precedence, Precedence::Comparison | Precedence::Pattern) {
            return Ok(());
        }
        let mut error = self.expected("AND, OR or the end of the condition");
        error.hint = Some("put one of two comparisons in parentheses, if its result is compared".to_owned());
        Err(error)
    }

    /// Whether the token at a distance can begin an operand, rather than a clause.
    pub(super) fn begins_operand(&self, ahead: usize) -> bool {
        match self.peek_at(ahead) {
            TokenKind::Word(None) | TokenKind::QuotedName | TokenKind::UnicodeName | TokenKind::Text(_) => true,
            TokenKind::Number | TokenKind::Parameter => true,
            TokenKind::Word(Some(keyword)) => {
                let is_value = matches!(keyword, K::CASE | K::CAST | K::NOT | K::NULL | K::TRUE | K::FALSE | K::ARRAY);
                is_value || keyword.class() != Class::Reserved || SessionValue::of(keyword).is_some()
            }
            TokenKind::Op(op) => {
                let opens = matches!(op, Op::LeftParen | Op::LeftBracket | Op::LeftBrace | Op::Hash);
                let signs = [Op::Minus, Op::Plus, Op::Tilde, Op::At, Op::SquareRoot, Op::CubeRoot];
                opens || signs.contains(&op)
            }
            TokenKind::End => false,
        }
    }
}

/// The operator between two operands that is written with this sign.
fn binary(op: Op) -> Option<BinaryOperator> {
    use BinaryOperator as B;
    Some(match op {
        Op::Eq | Op::DoubleEq => B::Eq,
        Op::NotEq | Op::BangEq => B::NotEq,
        Op::Lt => B::Lt,
        Op::Le => B::LtEq,
        Op::Gt => B::Gt,
        Op::Ge => B::GtEq,
        Op::Concat => B::Concat,
        Op::Ampersand => B::BitAnd,
        Op::Pipe => B::BitOr,
        Op::Hash => B::BitXor,
        Op::ShiftLeft => B::ShiftLeft,
        Op::ShiftRight => B::ShiftRight,
        Op::Tilde => B::Match,
        Op::TildeStar => B::MatchNoCase,
        Op::NotTilde => B::NotMatch,
        Op::NotTildeStar => B::NotMatchNoCase,
        Op::Like => B::Like,
        Op::ILike => B::ILike,
        Op::NotLike => B::NotLike,
        Op::NotILike => B::NotILike,
        Op::Arrow => B::Arrow,
        Op::LongArrow => B::LongArrow,
        Op::HashArrow => B::HashArrow,
        Op::HashLongArrow => B::HashLongArrow,
        Op::HashMinus => B::HashMinus,
        Op::Contains => B::Contains,
        Op::ContainedBy => B::ContainedBy,
        Op::Overlaps => B::Overlaps,
        Op::Distance => B::Distance,
        Op::CosineDistance => B::CosineDistance,
        Op::StartsWith => B::StartsWith,
        Op::Plus => B::Plus,
        Op::Minus => B::Minus,
        Op::Star => B::Multiply,
        Op::Slash => B::Divide,
        Op::DoubleSlash => B::IntegerDivide,
        Op::Percent => B::Modulo,
        Op::Caret | Op::DoubleStar => B::Power,
        _ => return None,
    })
}

impl BinaryOperator {
    /// Whether ANY and ALL may stand behind it.
    fn takes_quantity(self) -> bool {
        use BinaryOperator::*;
        self.precedence() == Precedence::Comparison || matches!(self, Match | MatchNoCase | NotMatch | NotMatchNoCase)
    }

    pub(crate) fn precedence(self) -> Precedence {
        use BinaryOperator::*;
        match self {
            Or => Precedence::Or,
            And => Precedence::And,
            IsDistinctFrom | IsNotDistinctFrom => Precedence::Is,
            Eq | NotEq | Lt | LtEq | Gt | GtEq => Precedence::Comparison,
            Plus | Minus => Precedence::Sum,
            Multiply | Divide | IntegerDivide | Modulo => Precedence::Product,
            Power => Precedence::Power,
            _ => Precedence::Other,
        }
    }
}
