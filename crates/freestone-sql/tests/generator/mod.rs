//! Trees from random bytes. Without bytes, everything is as small as possible, so that shorter inputs give smaller trees.

use freestone_sql::Span;
use freestone_sql::tree::*;

mod queries;
mod statements;

/// Random bytes, from which choices are made.
pub struct Source<'a> {
    bytes: std::slice::Iter<'a, u8>,
}

const SPAN: Span = Span::new(0, 0);

/// Names without quotes, some of which are words of the grammar elsewhere.
const NAMES: [&str; 15] = [
    "a", "t1", "größe", "natural", "glob", "map", "columns", "lambda", "qualify", "at", "filter", "interval", "asof",
    "values", "escape",
];

const TEXTS: [&str; 8] = ["", "x", "it's", "a\nb", "--", "\\n", "é😀;", "\"q\""];

const NUMBERS: [&str; 6] = ["1", "0x1F", "1.5e-3", "1_000", "2.", ".5"];

impl<'a> Source<'a> {
    pub fn new(bytes: &'a [u8]) -> Source<'a> {
        Source { bytes: bytes.iter() }
    }

    /// A number below `count`; 0 at the end.
    pub fn choose(&mut self, count: usize) -> usize {
        self.bytes.next().map_or(0, |byte| usize::from(*byte) % count)
    }

    pub fn flag(&mut self) -> bool {
        self.choose(2) == 1
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.choose(items.len())].clone()
    }

    pub fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| make(self))
    }

    pub fn some<T>(&mut self, least: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = least + self.choose(3);
        (0..count).map(|_| make(self)).collect()
    }

    pub fn name(&mut self) -> Name {
        let quoted = self.choose(4) == 3;
        let text = if quoted { self.pick(&["A b", "a", "select", "q\"q", "É"]) } else { self.pick(&NAMES) };
        Name { text: text.to_owned(), quoted, span: SPAN }
    }

    pub fn object_name(&mut self) -> ObjectName {
        let parts = self.some(1, Self::name);
        ObjectName { parts, span: SPAN }
    }

    pub fn text(&mut self) -> Text {
        Text { value: self.pick(&TEXTS).to_owned(), span: SPAN }
    }

    pub fn number(&mut self) -> Expr {
        Expr { kind: ExprKind::Literal(Literal::Number(self.pick(&NUMBERS).to_owned())), span: SPAN }
    }

    pub fn option(&mut self) -> OptionItem {
        let value = self.maybe(|source| match source.choose(4) {
            0 => source.number(),
            1 => Expr { kind: ExprKind::Literal(Literal::Text(source.text().value)), span: SPAN },
            2 => {
                let name = Name { text: "off".to_owned(), quoted: false, span: SPAN };
                Expr { kind: ExprKind::Column(ObjectName { parts: vec![name], span: SPAN }), span: SPAN }
            }
            _ => Expr { kind: ExprKind::List(vec![source.number()]), span: SPAN },
        });
        OptionItem { name: self.name(), value, span: SPAN }
    }

    pub fn data_type(&mut self, depth: usize) -> Type {
        let kind = match self.choose(if depth == 0 { 2 } else { 7 }) {
            0 => TypeKind::Named { name: self.type_name("int"), modifiers: vec![] },
            1 => TypeKind::Named { name: self.type_name("decimal"), modifiers: vec!["10".into(), "2".into()] },
            2 => TypeKind::List(Box::new(self.data_type(depth - 1))),
            3 => TypeKind::Array(Box::new(self.data_type(depth - 1)), "3".into()),
            4 => TypeKind::Struct(
                self.some(1, |source| TypeField { name: source.name(), data_type: source.data_type(depth - 1) }),
            ),
            5 => TypeKind::Map(Box::new(self.data_type(depth - 1)), Box::new(self.data_type(depth - 1))),
            _ => TypeKind::Enum(self.some(1, Self::text)),
        };
        Type { kind, span: SPAN }
    }

    fn type_name(&mut self, text: &str) -> ObjectName {
        let name = Name { text: text.to_owned(), quoted: self.choose(8) == 7, span: SPAN };
        ObjectName { parts: vec![name], span: SPAN }
    }

    pub fn boxed(&mut self, depth: usize) -> Box<Expr> {
        Box::new(self.expression(depth))
    }

    pub fn expression(&mut self, depth: usize) -> Expr {
        let kind = if depth == 0 { self.leaf() } else { self.node(depth - 1) };
        Expr { kind, span: SPAN }
    }

    fn leaf(&mut self) -> ExprKind {
        match self.choose(9) {
            0 => ExprKind::Column(self.object_name()),
            1 => self.number().kind,
            2 => ExprKind::Literal(Literal::Text(self.text().value)),
            3 => ExprKind::Literal(self.pick(&[Literal::Null, Literal::Boolean(true), Literal::Boolean(false)])),
            4 => ExprKind::Literal(self.pick(&[Literal::Hexadecimal("1F".into()), Literal::Bits("01".into())])),
            5 => {
                ExprKind::Parameter(self.pick(&[Parameter::Next, Parameter::Number(7), Parameter::Name("name".into())]))
            }
            6 => ExprKind::Position(3),
            7 => ExprKind::SessionValue(self.pick(&[SessionValue::CurrentDate, SessionValue::User])),
            _ => {
                let kind = TypeKind::Named { name: self.type_name("date"), modifiers: vec![] };
                let data_type = Box::new(Type { kind, span: SPAN });
                ExprKind::TypedText { data_type, text: self.text() }
            }
        }
    }

    fn node(&mut self, depth: usize) -> ExprKind {
        match self.choose(5) {
            0 => self.operator(depth),
            1 => self.test(depth),
            2 => self.collection(depth),
            3 => self.suffix(depth),
            _ => self.call_like(depth),
        }
    }

    fn operator(&mut self, depth: usize) -> ExprKind {
        use BinaryOperator::*;
        const LEVELS: [&[BinaryOperator]; 8] = [
            &[Or],
            &[And],
            &[IsDistinctFrom, IsNotDistinctFrom],
            &[Eq, NotEq, Lt, LtEq, Gt, GtEq],
            &[Concat, BitXor, Match, NotILike, LongArrow, ContainedBy, CosineDistance, StartsWith, Like],
            &[Plus, Minus],
            &[Multiply, Divide, IntegerDivide, Modulo],
            &[Power],
        ];
        if self.choose(4) == 3 {
            use UnaryOperator as Unary;
            let operator = self.pick(&[Unary::Not, Unary::Minus, Unary::Plus, Unary::BitNot]);
            return ExprKind::Unary { operator, operand: self.boxed(depth) };
        }
        let level = self.choose(LEVELS.len());
        let mut first = self.boxed(depth);
        // The parser has no chain at the beginning of another one of its precedence.
        if let ExprKind::Chain { rest, .. } = &first.kind
            && rest.iter().any(|link| LEVELS[level].contains(&link.operator))
            && level != 3
        {
            *first = self.number();
        }
        let link = |source: &mut Self| Link {
            operator: source.pick(LEVELS[level]),
            span: SPAN,
            operand: source.expression(depth),
        };
        let rest = if level == 3 { vec![link(self)] } else { self.some(1, link) };
        ExprKind::Chain { first, rest }
    }

    fn test(&mut self, depth: usize) -> ExprKind {
        let (operand, negated) = (self.boxed(depth), self.flag());
        match self.choose(7) {
            0 => ExprKind::Is {
                operand,
                negated,
                test: self.pick(&[IsTest::Null, IsTest::True, IsTest::False, IsTest::Unknown]),
            },
            1 => ExprKind::Like {
                operand,
                negated,
                operator: self.pick(&[
                    LikeOperator::Like,
                    LikeOperator::ILike,
                    LikeOperator::SimilarTo,
                    LikeOperator::Glob,
                ]),
                pattern: self.boxed(depth),
                escape: self.maybe(|source| source.boxed(depth)),
            },
            2 => {
                let (low, high) = (self.boxed(depth), self.boxed(depth));
                ExprKind::Between { operand, negated, symmetric: self.flag(), low, high }
            }
            3 => ExprKind::In { operand, negated, set: self.in_set(depth) },
            4 => {
                let operator = self.pick(&[BinaryOperator::Eq, BinaryOperator::Lt]);
                let values = match self.flag() {
                    true => Quantity::Query(Box::new(self.query(depth))),
                    false => Quantity::List(Box::new(Expr { kind: self.leaf(), span: SPAN })),
                };
                ExprKind::Quantified { operand, operator, all: negated, values }
            }
            5 => ExprKind::AtTimeZone { operand, zone: self.boxed(depth) },
            _ => ExprKind::Collate { operand, collation: self.object_name() },
        }
    }

    fn in_set(&mut self, depth: usize) -> InSet {
        match self.choose(3) {
            0 => {
                let mut values = self.some(1, |source| source.expression(depth));
                // A query alone is a set of its rows.
                if matches!(values.as_slice(), [Expr { kind: ExprKind::Subquery(_), .. }]) {
                    values.push(self.number());
                }
                InSet::Values(values)
            }
            1 => InSet::Query(Box::new(self.query(depth))),
            _ => InSet::List(Box::new(Expr {
                kind: ExprKind::List(self.some(0, |source| source.expression(depth))),
                span: SPAN,
            })),
        }
    }

    fn collection(&mut self, depth: usize) -> ExprKind {
        match self.choose(8) {
            0 => ExprKind::List(self.some(0, |source| source.expression(depth))),
            1 => ExprKind::Row(self.some(0, |source| source.expression(depth))),
            2 => ExprKind::Struct(self.some(0, |source| (source.name(), source.expression(depth)))),
            3 => ExprKind::Map(self.some(0, |source| (source.expression(depth), source.expression(depth)))),
            4 => {
                let (value, list) = (self.expression(depth), self.expression(depth));
                let names = (0..1 + self.choose(2)).map(|_| self.name()).collect();
                let condition = self.maybe(|source| source.expression(depth));
                ExprKind::Comprehension(Box::new(Comprehension { value, names, list, condition }))
            }
            5 => ExprKind::Subquery(Box::new(self.query(depth))),
            6 => ExprKind::Exists(Box::new(self.query(depth))),
            _ => ExprKind::ListOfQuery(Box::new(self.query(depth))),
        }
    }

    fn suffix(&mut self, depth: usize) -> ExprKind {
        match self.choose(4) {
            0 => {
                let (operand, data_type) = (self.boxed(depth), Box::new(self.data_type(2)));
                ExprKind::Cast {
                    operand,
                    data_type,
                    form: self.pick(&[CastForm::Cast, CastForm::TryCast, CastForm::Colons]),
                }
            }
            1 => ExprKind::Field { operand: self.boxed(depth), name: self.name() },
            2 => ExprKind::Subscript { operand: self.boxed(depth), index: self.boxed(depth) },
            _ => {
                let operand = self.expression(depth);
                let mut part = || self.maybe(|source| source.expression(depth));
                let (low, high, step) = (part(), part(), part());
                ExprKind::Slice(Box::new(Slice { operand, low, high, step }))
            }
        }
    }

    fn call_like(&mut self, depth: usize) -> ExprKind {
        match self.choose(6) {
            0 => {
                let operand = self.maybe(|source| source.expression(depth));
                let branches = self.some(1, |source| (source.expression(depth), source.expression(depth)));
                let otherwise = self.maybe(|source| source.expression(depth));
                ExprKind::Case(Box::new(Case { operand, branches, otherwise }))
            }
            1 => ExprKind::Special(Box::new(self.special(depth))),
            2 => {
                let units = [Unit::Day, Unit::Year, Unit::Microsecond];
                let first = self.pick(&units);
                let unit = IntervalUnit { first, last: self.maybe(|source| source.pick(&units)) };
                ExprKind::Interval { value: self.boxed(depth), unit: Some(unit) }
            }
            3 => {
                let star = self.star(depth);
                ExprKind::Columns(Box::new(star))
            }
            _ => ExprKind::Call(Box::new(self.call(depth))),
        }
    }

    pub fn call(&mut self, depth: usize) -> Call {
        let receiver = self.maybe(|source| source.expression(depth));
        let text = self.pick(&["f", "left", "list_filter", "coalesce", "lower"]);
        let name = Name { text: text.to_owned(), quoted: false, span: SPAN };
        let arguments = self.some(0, |source| Argument {
            name: source.maybe(Self::name),
            value: match source.choose(4) {
                3 => source.lambda(depth),
                2 => source.star(depth),
                _ => source.expression(depth),
            },
        });
        let has_arguments = !arguments.is_empty();
        Call {
            receiver,
            name: ObjectName { parts: vec![name], span: SPAN },
            distinct: has_arguments && self.flag(),
            order_by: if has_arguments { self.some(0, |source| source.sort_key(depth)) } else { vec![] },
            arguments,
            ignore_nulls: self.maybe(Self::flag),
            within_group: if self.flag() { self.some(1, |source| source.sort_key(depth)) } else { vec![] },
            filter: self.maybe(|source| source.expression(depth)),
            over: self.maybe(|source| match source.flag() {
                true => Over::Window(source.window(depth)),
                false => Over::Name(source.name()),
            }),
        }
    }

    fn lambda(&mut self, depth: usize) -> Expr {
        let kind = ExprKind::Lambda { parameters: self.some(1, Self::name), body: self.boxed(depth) };
        Expr { kind, span: SPAN }
    }

    fn special(&mut self, depth: usize) -> SpecialCall {
        let value = self.expression(depth);
        let mut part = || self.expression(depth);
        let (first, second) = (part(), part());
        match self.choose(5) {
            0 => SpecialCall::Extract { part: self.pick(&["year", "epoch", "odd part"]).to_owned(), value },
            1 => SpecialCall::Position { needle: first, value },
            2 => {
                let start = self.maybe(|_| first);
                let length = if start.is_none() || self.flag() { Some(second) } else { None };
                SpecialCall::Substring { value, start, length }
            }
            3 => {
                let side = self.pick(&[TrimSide::Both, TrimSide::Leading, TrimSide::Trailing]);
                SpecialCall::Trim { side, characters: self.maybe(|_| first), value }
            }
            _ => SpecialCall::Overlay { value, other: first, start: second, length: self.maybe(Self::number) },
        }
    }

    pub fn star(&mut self, depth: usize) -> Expr {
        let star = Star {
            qualifier: self.maybe(Self::object_name),
            exclude: self.some(0, Self::object_name),
            replace: self.some(0, |source| (source.expression(depth), source.name())),
            rename: self.some(0, |source| (source.object_name(), source.name())),
            like: self.maybe(|source| StarPattern {
                negated: source.flag(),
                operator: source.pick(&[LikeOperator::ILike, LikeOperator::SimilarTo]),
                pattern: source.text(),
                escape: None,
            }),
        };
        Expr { kind: ExprKind::Star(Box::new(star)), span: SPAN }
    }

    pub fn sort_order(&mut self) -> SortOrder {
        SortOrder { descending: self.maybe(Self::flag), nulls_first: self.maybe(Self::flag) }
    }

    pub fn sort_key(&mut self, depth: usize) -> SortKey {
        SortKey { value: self.expression(depth), order: self.sort_order() }
    }

    pub fn window(&mut self, depth: usize) -> Window {
        Window {
            base: self.maybe(Self::name),
            partition_by: self.some(0, |source| source.expression(depth)),
            order_by: self.some(0, |source| source.sort_key(depth)),
            frame: self.maybe(|source| Frame {
                unit: source.pick(&[FrameUnit::Rows, FrameUnit::Range, FrameUnit::Groups]),
                start: source.frame_bound(depth),
                end: source.maybe(|source| source.frame_bound(depth)),
                exclude: source.maybe(|source| {
                    source.pick(&[FrameExclude::CurrentRow, FrameExclude::Ties, FrameExclude::NoOthers])
                }),
            }),
            span: SPAN,
        }
    }

    fn frame_bound(&mut self, depth: usize) -> FrameBound {
        match self.choose(5) {
            0 => FrameBound::CurrentRow,
            1 => FrameBound::UnboundedPreceding,
            2 => FrameBound::UnboundedFollowing,
            3 => FrameBound::Preceding(self.boxed(depth)),
            _ => FrameBound::Following(self.boxed(depth)),
        }
    }
}
