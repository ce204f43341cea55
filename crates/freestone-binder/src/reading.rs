//! Visits of trees: the tables that a query names, and the parts of expressions.

use freestone_sql::Span;
use freestone_sql::tree::{
    BinaryOperator, Call, Described, Expr, ExprKind, GroupBy, GroupKey, InSet, Link, Listing, ObjectName, OptionItem,
    OrderBy, Over, Parameter, Pivot, PivotValues, Quantity, Query, QueryBody, Select, SelectItem, SortKey, SpecialCall,
    Table, TableKind, Unpivot, Version, Window, WithBody,
};
use freestone_sql::tree::{Frame, FrameBound, JoinCondition};

/// The stack that one level takes at most, and what is added when less is left.
const STACK_BYTES_LEFT: usize = 128 << 10;
const STACK_BYTES: usize = 1 << 20;

/// What a query names in FROM.
#[derive(Debug, Clone, PartialEq)]
pub enum Named {
    /// A table or view.
    Table(ObjectName),
    /// A table at an earlier version.
    Version(ObjectName, Version),
    /// A file, with what is said of it.
    File(String, Vec<OptionItem>),
}

impl Named {
    /// What a table of FROM names. `None` for other forms.
    pub fn of(table: &Table) -> Option<Named> {
        match &table.kind {
            TableKind::Named { name, version: None } => Some(Named::Table(name.clone())),
            TableKind::Named { name, version: Some(version) } => Some(Named::Version(name.clone(), version.clone())),
            TableKind::File { path, options } => Some(Named::File(path.clone(), options.clone())),
            _ => None,
        }
    }

    /// The name as text.
    pub fn text(&self) -> String {
        match self {
            Named::Table(name) | Named::Version(name, _) => shown(name),
            Named::File(path, _) => path.clone(),
        }
    }
}

/// A name as text, without quotes.
pub(crate) fn shown(name: &ObjectName) -> String {
    name.parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(".")
}

/// All that a query names in FROM, each once: tables, views and files, without parts of WITH.
pub fn named_tables(query: &Query) -> Vec<Named> {
    let mut all: Vec<Named> = vec![];
    let mut note = |table: &Table| {
        if let Some(named) = Named::of(table)
            && !all.contains(&named)
        {
            all.push(named);
        }
    };
    let mut bodies: Vec<ObjectName> = vec![];
    let body = &mut |name: &ObjectName| bodies.push(name.clone());
    let mut walk = Walk { expr: &mut |_| {}, table: &mut note, body, query: &mut |_| {}, parts: vec![] };
    walk.query(query);
    for name in bodies {
        let named = Named::Table(name);
        if !all.contains(&named) {
            all.push(named);
        }
    }
    all
}

/// The query whose rows are described.
pub(crate) fn query_of(described: &Described) -> Query {
    match described {
        Described::Query(query) => query.as_ref().clone(),
        Described::Table(name) => Query::of(QueryBody::Table(name.clone()), name.span),
        Described::File(path) => {
            let span = Span::default();
            let kind = TableKind::File { path: path.clone(), options: vec![] };
            all_of(Table { kind, alias: None, sample: None, span })
        }
    }
}

/// `SELECT * FROM table`.
pub fn all_of(table: Table) -> Query {
    let span = table.span;
    let star = Expr { kind: ExprKind::Star(Box::default()), span };
    let items = vec![SelectItem { value: star, alias: None }];
    let select = Select { from: vec![table], ..Select::of_items(items, span) };
    Query::of(QueryBody::Select(Box::new(select)), span)
}

/// The parameters of a query, with where each stands.
pub(crate) fn parameters(query: &Query) -> Vec<(u32, Parameter)> {
    let mut found = vec![];
    each_expression(query, &mut |expr: &Expr| {
        if let ExprKind::Parameter(parameter) = &expr.kind {
            found.push((expr.span.start, parameter.clone()));
        }
    });
    found
}

/// Calls `on` for all expressions of a query and of the queries within it, and for all of their parts.
pub fn each_expression(query: &Query, on: &mut dyn FnMut(&Expr)) {
    Walk { expr: on, table: &mut |_| {}, body: &mut |_| {}, query: &mut |_| {}, parts: vec![] }.query(query);
}

/// What the place of a parameter says of its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Nothing.
    Value,
    /// It is a list: `a = ANY ($1)`.
    List,
    /// It is a number of rows.
    Count,
    /// It is in an argument of a function of FROM.
    Argument,
    /// It is added to something or subtracted from it.
    Summand,
}

/// A parameter, and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedParameter {
    /// The parameter.
    pub parameter: Parameter,
    /// The offset in the text.
    pub offset: u32,
    /// What its place says.
    pub place: Place,
}

/// All parameters of a query. One is there several times if its place says something.
pub fn placed_parameters(query: &Query) -> Vec<PlacedParameter> {
    let found = std::cell::RefCell::new(vec![]);
    let note = |expr: &Expr, place: Place| {
        if let ExprKind::Parameter(parameter) = &expr.kind {
            let (parameter, offset) = (parameter.clone(), expr.span.start);
            found.borrow_mut().push(PlacedParameter { parameter, offset, place });
        }
    };
    let mut of_expr = |expr: &Expr| {
        note(expr, Place::Value);
        match &expr.kind {
            ExprKind::Quantified { values: Quantity::List(list), .. } => note(list, Place::List),
            ExprKind::Chain { first, rest } => {
                let is_sum = |link: &Link| matches!(link.operator, BinaryOperator::Plus | BinaryOperator::Minus);
                rest.iter().filter(|link| is_sum(link)).for_each(|link| note(&link.operand, Place::Summand));
                if rest.first().is_some_and(is_sum) {
                    note(first, Place::Summand);
                }
            }
            _ => {}
        }
    };
    let mut of_table = |table: &Table| {
        if let TableKind::Call { call, .. } = &table.kind {
            let arguments = call.arguments.iter().map(|argument| &argument.value);
            arguments.for_each(|value| each_part(value, &mut |part| note(part, Place::Argument)));
        }
    };
    let mut of_query = |query: &Query| {
        let counts = query.limit.iter().map(|limit| &limit.count).chain(&query.offset);
        counts.for_each(|count| note(count, Place::Count));
    };
    let (expr, table, body, query_of) = (&mut of_expr, &mut of_table, &mut |_: &ObjectName| {}, &mut of_query);
    Walk { expr, table, body, query: query_of, parts: vec![] }.query(query);
    found.into_inner()
}

/// Visits a query with all that is within it.
struct Walk<'a> {
    expr: &'a mut dyn FnMut(&Expr),
    table: &'a mut dyn FnMut(&Table),
    /// The tables of `TABLE t`.
    body: &'a mut dyn FnMut(&ObjectName),
    query: &'a mut dyn FnMut(&Query),
    /// The names of the parts of WITH that are in sight, which are no tables.
    parts: Vec<String>,
}

impl Walk<'_> {
    fn query(&mut self, query: &Query) {
        stacker::maybe_grow(STACK_BYTES_LEFT, STACK_BYTES, || self.parts_of_query(query));
    }

    fn parts_of_query(&mut self, query: &Query) {
        (self.query)(query);
        let in_sight = self.parts.len();
        for part in query.with.iter().flat_map(|with| &with.parts) {
            let is_recursive = query.with.as_ref().is_some_and(|with| with.recursive);
            if is_recursive {
                self.parts.push(part.name.text.clone());
            }
            if let WithBody::Query(query) = &part.body {
                self.query(query);
            }
            if !is_recursive {
                self.parts.push(part.name.text.clone());
            }
        }
        self.query_body(&query.body);
        if let Some(OrderBy::Keys(keys)) = &query.order_by {
            self.sorts(keys);
        }
        if let Some(limit) = &query.limit {
            self.expr(&limit.count);
        }
        self.exprs(&query.offset);
        self.parts.truncate(in_sight);
    }

    fn is_part(&self, name: &ObjectName) -> bool {
        matches!(name.parts.as_slice(), [only] if self.parts.contains(&only.text))
    }

    fn query_body(&mut self, body: &QueryBody) {
        match body {
            QueryBody::Select(select) => self.select(select),
            QueryBody::Values(rows) => rows.iter().for_each(|row| self.exprs(row)),
            QueryBody::Table(name) if self.is_part(name) => {}
            QueryBody::Table(name) => (self.body)(name),
            QueryBody::Nested(query) => self.query(query),
            QueryBody::Chain { first, rest } => {
                self.query_body(first);
                rest.iter().for_each(|link| self.query_body(&link.operand));
            }
            QueryBody::Pivot(pivot) => self.pivot(pivot),
            QueryBody::Unpivot(unpivot) => self.unpivot(unpivot),
        }
    }

    fn select(&mut self, select: &Select) {
        if let Some(freestone_sql::tree::Distinct::On(keys)) = &select.distinct {
            self.exprs(keys);
        }
        select.items.iter().for_each(|item| self.expr(&item.value));
        select.from.iter().for_each(|table| self.table(table));
        self.exprs(&select.condition);
        if let GroupBy::Keys(keys) = &select.group_by {
            keys.iter().for_each(|key| self.group_key(key));
        }
        self.exprs(&select.having);
        select.windows.iter().for_each(|named| self.window(&named.window));
        self.exprs(&select.qualify);
        if let Some(sample) = &select.sample {
            self.expr(&sample.count);
            self.exprs(&sample.seed);
        }
    }

    fn group_key(&mut self, key: &GroupKey) {
        match key {
            GroupKey::Value(value) => self.expr(value),
            GroupKey::Empty => {}
            GroupKey::Rollup(values) | GroupKey::Cube(values) => self.exprs(values),
            GroupKey::Sets(keys) => keys.iter().for_each(|key| self.group_key(key)),
        }
    }

    fn table(&mut self, table: &Table) {
        if !matches!(&table.kind, TableKind::Named { name, .. } if self.is_part(name)) {
            (self.table)(table);
        }
        if let Some(sample) = &table.sample {
            self.expr(&sample.count);
            self.exprs(&sample.seed);
        }
        match &table.kind {
            TableKind::Named { .. } | TableKind::File { .. } => {}
            TableKind::Call { call, .. } => self.call(call),
            TableKind::Query { query, .. } => self.query(query),
            TableKind::Join { first, rest } => {
                self.table(first);
                for join in rest {
                    self.table(&join.table);
                    if let JoinCondition::On(condition) = &join.condition {
                        self.expr(condition);
                    }
                }
            }
            TableKind::Pivot(pivot) => self.pivot(pivot),
            TableKind::Unpivot(unpivot) => self.unpivot(unpivot),
            TableKind::Listing(listing) => match listing.as_ref() {
                Listing::Describe(described) | Listing::Summarize(described) => self.query(&query_of(described)),
                Listing::Tables | Listing::AllTables => {}
            },
        }
    }

    fn pivot(&mut self, pivot: &Pivot) {
        self.table(&pivot.source);
        for column in &pivot.columns {
            self.expr(&column.value);
            match &column.values {
                Some(PivotValues::List(items)) => items.iter().for_each(|item| self.expr(&item.value)),
                Some(PivotValues::Query(query)) => self.query(query),
                None => {}
            }
        }
        pivot.aggregates.iter().for_each(|item| self.expr(&item.value));
        self.exprs(&pivot.group_by);
    }

    fn unpivot(&mut self, unpivot: &Unpivot) {
        self.table(&unpivot.source);
        unpivot.columns.iter().for_each(|item| self.expr(&item.value));
    }

    fn call(&mut self, call: &Call) {
        calls_parts(call).into_iter().for_each(|part| self.expr(part));
    }

    fn window(&mut self, window: &Window) {
        window_parts(window).into_iter().for_each(|part| self.expr(part));
    }

    fn sorts(&mut self, keys: &[SortKey]) {
        keys.iter().for_each(|key| self.expr(&key.value));
    }

    fn exprs<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Expr>) {
        exprs.into_iter().for_each(|expr| self.expr(expr));
    }

    fn expr(&mut self, expr: &Expr) {
        stacker::maybe_grow(STACK_BYTES_LEFT, STACK_BYTES, || {
            (self.expr)(expr);
            parts(expr).into_iter().for_each(|part| self.expr(part));
            queries(expr).into_iter().for_each(|query| self.query(query));
        });
    }
}

/// The queries that stand in an expression itself.
fn queries(expr: &Expr) -> Vec<&Query> {
    match &expr.kind {
        ExprKind::Exists(query) | ExprKind::Subquery(query) | ExprKind::ListOfQuery(query) => vec![query],
        ExprKind::In { set: InSet::Query(query), .. } => vec![query],
        ExprKind::Quantified { values: Quantity::Query(query), .. } => vec![query],
        _ => vec![],
    }
}

/// Calls `on` for an expression and all of its parts, without those of subqueries.
pub fn each_part(expr: &Expr, on: &mut dyn FnMut(&Expr)) {
    stacker::maybe_grow(STACK_BYTES_LEFT, STACK_BYTES, || {
        on(expr);
        parts(expr).into_iter().for_each(|part| each_part(part, on));
    });
}

/// Calls `on` for an expression and all of its parts, which it may change, without those of subqueries. A part is visited
/// after its own parts.
pub fn each_part_mut(expr: &mut Expr, on: &mut dyn FnMut(&mut Expr)) {
    stacker::maybe_grow(STACK_BYTES_LEFT, STACK_BYTES, || {
        parts_mut(expr).into_iter().for_each(|part| each_part_mut(part, on));
        on(expr);
    });
}

/// The functions of the expressions that stand in an expression itself, once to read and once to change them.
macro_rules! parts {
    ($parts:ident, $calls:ident, $windows:ident, $special:ident, $frames:ident $(, $mut:tt)?) => {
        fn $parts(expr: &$($mut)? Expr) -> Vec<&$($mut)? Expr> {
            match &$($mut)? expr.kind {
                ExprKind::Columns(one)
                | ExprKind::Unpacked(one)
                | ExprKind::Unary { operand: one, .. }
                | ExprKind::Is { operand: one, .. }
                | ExprKind::Cast { operand: one, .. }
                | ExprKind::Interval { value: one, .. }
                | ExprKind::Collate { operand: one, .. }
                | ExprKind::Lambda { body: one, .. }
                | ExprKind::Field { operand: one, .. } => vec![one],
                ExprKind::AtTimeZone { operand: one, zone: other }
                | ExprKind::Subscript { operand: one, index: other } => vec![one, other],
                ExprKind::Star(star) => {
                    let mut all: Vec<&$($mut)? Expr> = vec![];
                    for (value, _) in &$($mut)? star.replace {
                        all.push(value);
                    }
                    all
                }
                ExprKind::Chain { first, rest } => {
                    let mut all: Vec<&$($mut)? Expr> = vec![first];
                    for link in rest {
                        all.push(&$($mut)? link.operand);
                    }
                    all
                }
                ExprKind::Like { operand, pattern, escape, .. } => {
                    let mut all: Vec<&$($mut)? Expr> = vec![operand, pattern];
                    if let Some(escape) = escape {
                        all.push(escape);
                    }
                    all
                }
                ExprKind::Between { operand, low, high, .. } => vec![operand, low, high],
                ExprKind::In { operand, set, .. } => {
                    let mut all: Vec<&$($mut)? Expr> = vec![operand];
                    match set {
                        InSet::Values(values) => all.extend(values),
                        InSet::List(list) => all.push(list),
                        InSet::Query(_) => {}
                    }
                    all
                }
                ExprKind::Quantified { operand, values, .. } => match values {
                    Quantity::List(list) => vec![operand, list],
                    Quantity::Query(_) => vec![operand],
                },
                ExprKind::Case(case) => {
                    let mut all: Vec<&$($mut)? Expr> = vec![];
                    if let Some(operand) = &$($mut)? case.operand {
                        all.push(operand);
                    }
                    for (condition, result) in &$($mut)? case.branches {
                        all.push(condition);
                        all.push(result);
                    }
                    if let Some(otherwise) = &$($mut)? case.otherwise {
                        all.push(otherwise);
                    }
                    all
                }
                ExprKind::Call(call) => $calls(call),
                ExprKind::Special(call) => $special(call),
                ExprKind::Row(values) | ExprKind::List(values) => {
                    let mut all: Vec<&$($mut)? Expr> = vec![];
                    all.extend(values);
                    all
                }
                ExprKind::Struct(fields) => {
                    let mut all: Vec<&$($mut)? Expr> = vec![];
                    for (_, value) in fields {
                        all.push(value);
                    }
                    all
                }
                ExprKind::Map(entries) => {
                    let mut all: Vec<&$($mut)? Expr> = vec![];
                    for (key, value) in entries {
                        all.push(key);
                        all.push(value);
                    }
                    all
                }
                ExprKind::Comprehension(inner) => {
                    let inner = &$($mut)? **inner;
                    let mut all: Vec<&$($mut)? Expr> = vec![&$($mut)? inner.value, &$($mut)? inner.list];
                    if let Some(condition) = &$($mut)? inner.condition {
                        all.push(condition);
                    }
                    all
                }
                ExprKind::Slice(slice) => {
                    let slice = &$($mut)? **slice;
                    let mut all: Vec<&$($mut)? Expr> = vec![&$($mut)? slice.operand];
                    for bound in [&$($mut)? slice.low, &$($mut)? slice.high, &$($mut)? slice.step] {
                        if let Some(bound) = bound {
                            all.push(bound);
                        }
                    }
                    all
                }
                ExprKind::Literal(_)
                | ExprKind::Parameter(_)
                | ExprKind::Column(_)
                | ExprKind::Position(_)
                | ExprKind::Default
                | ExprKind::SessionValue(_)
                | ExprKind::Exists(_)
                | ExprKind::Subquery(_)
                | ExprKind::ListOfQuery(_)
                | ExprKind::TypedText { .. } => vec![],
            }
        }

        fn $calls(call: &$($mut)? Call) -> Vec<&$($mut)? Expr> {
            let mut all: Vec<&$($mut)? Expr> = vec![];
            if let Some(receiver) = &$($mut)? call.receiver {
                all.push(receiver);
            }
            for argument in &$($mut)? call.arguments {
                all.push(&$($mut)? argument.value);
            }
            for key in &$($mut)? call.order_by {
                all.push(&$($mut)? key.value);
            }
            for key in &$($mut)? call.within_group {
                all.push(&$($mut)? key.value);
            }
            if let Some(condition) = &$($mut)? call.filter {
                all.push(condition);
            }
            if let Some(Over::Window(window)) = &$($mut)? call.over {
                all.extend($windows(window));
            }
            all
        }

        fn $windows(window: &$($mut)? Window) -> Vec<&$($mut)? Expr> {
            let mut all: Vec<&$($mut)? Expr> = vec![];
            for key in &$($mut)? window.partition_by {
                all.push(key);
            }
            for key in &$($mut)? window.order_by {
                all.push(&$($mut)? key.value);
            }
            if let Some(frame) = &$($mut)? window.frame {
                all.extend($frames(frame));
            }
            all
        }

        fn $frames(frame: &$($mut)? Frame) -> Vec<&$($mut)? Expr> {
            let mut all: Vec<&$($mut)? Expr> = vec![];
            if let FrameBound::Preceding(offset) | FrameBound::Following(offset) = &$($mut)? frame.start {
                all.push(offset);
            }
            if let Some(FrameBound::Preceding(offset) | FrameBound::Following(offset)) = &$($mut)? frame.end {
                all.push(offset);
            }
            all
        }

        fn $special(call: &$($mut)? SpecialCall) -> Vec<&$($mut)? Expr> {
            let mut all: Vec<&$($mut)? Expr> = vec![];
            match call {
                SpecialCall::Extract { value, .. } => all.push(value),
                SpecialCall::Position { needle, value } => all.extend([needle, value]),
                SpecialCall::Substring { value, start, length } => {
                    all.push(value);
                    for bound in [start, length] {
                        if let Some(bound) = bound {
                            all.push(bound);
                        }
                    }
                }
                SpecialCall::Trim { characters, value, .. } => {
                    all.push(value);
                    if let Some(characters) = characters {
                        all.push(characters);
                    }
                }
                SpecialCall::Overlay { value, other, start, length } => {
                    all.extend([value, other, start]);
                    if let Some(length) = length {
                        all.push(length);
                    }
                }
            }
            all
        }
    };
}

parts!(parts, calls_parts, window_parts, special_parts, frame_parts);
parts!(parts_mut, calls_parts_mut, window_parts_mut, special_parts_mut, frame_parts_mut, mut);
