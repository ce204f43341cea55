//! What queries read: the tables that they name, and their parameters.

use freestone_sql::Span;
use freestone_sql::tree::{
    BinaryOperator, Described, Expr, ExprKind, Link, ObjectName, OptionItem, Parameter, Quantity, Query, QueryBody,
    Select, SelectItem, Table, TableKind, Version, Walk, WithPart, each_part,
};

/// The schema of the table with the row of each key, as in `recurring.t`.
pub(crate) const STATE_SCHEMA: &str = "recurring";

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

/// Something that reads a table, view or file.
#[derive(Debug, Clone, Copy)]
pub enum Reference<'q> {
    /// What stands in FROM.
    Table(&'q Table),
    /// The name in `TABLE t`.
    Body(&'q ObjectName),
}

/// All that a query names in FROM, each once: tables, views and files, without parts of WITH.
pub fn named_tables(query: &Query) -> Vec<Named> {
    let mut found = vec![];
    each_reference(query, &mut |reference| {
        let named = match reference {
            Reference::Table(table) => Named::of(table),
            Reference::Body(name) => Some(Named::Table(name.clone())),
        };
        found.extend(named.filter(|named| !found.contains(named)));
    });
    found
}

/// Calls `visit` for all that a query names in FROM, without parts of WITH.
pub fn each_reference(query: &Query, visit: &mut dyn FnMut(Reference<'_>)) {
    References { visit, parts: vec![], keyed: vec![] }.query(query);
}

struct References<'v> {
    visit: &'v mut dyn FnMut(Reference<'_>),
    /// The names of the parts of WITH that are in sight, which are no tables.
    parts: Vec<String>,
    /// Those of them that are recursions with keys, whose rows are read under [`STATE_SCHEMA`] too.
    keyed: Vec<String>,
}

impl References<'_> {
    fn is_part(&self, name: &ObjectName) -> bool {
        match name.parts.as_slice() {
            [only] => self.parts.contains(&only.text),
            [schema, name] => schema.text == STATE_SCHEMA && self.keyed.contains(&name.text),
            _ => false,
        }
    }
}

impl Walk for References<'_> {
    fn query(&mut self, query: &Query) {
        let in_sight = self.parts.len();
        query.walk(self);
        self.parts.truncate(in_sight);
    }

    fn with_part(&mut self, part: &WithPart, recursive: bool) {
        let name = part.name.text.clone();
        if recursive {
            self.parts.push(name.clone());
            let keyed = self.keyed.len();
            self.keyed.extend((!part.key.is_empty()).then_some(name));
            part.walk(self);
            self.keyed.truncate(keyed);
        } else {
            part.walk(self);
            self.parts.push(name);
        }
    }

    fn body(&mut self, body: &QueryBody) {
        match body {
            QueryBody::Table(name) if !self.is_part(name) => (self.visit)(Reference::Body(name)),
            _ => {}
        }
        body.walk(self);
    }

    fn table(&mut self, table: &Table) {
        let is_part = matches!(&table.kind, TableKind::Named { name, .. } if self.is_part(name));
        if !is_part {
            (self.visit)(Reference::Table(table));
        }
        table.walk(self);
    }

    fn described(&mut self, described: &Described) {
        self.query(&query_of(described));
    }
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
    struct Each<'a>(&'a mut dyn FnMut(&Expr));
    impl Walk for Each<'_> {
        fn expr(&mut self, expr: &Expr) {
            (self.0)(expr);
            expr.walk(self);
        }
    }
    Each(on).query(query);
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
    let mut placed = Placed(vec![]);
    placed.query(query);
    placed.0
}

/// Collects parameters with their places.
struct Placed(Vec<PlacedParameter>);

impl Placed {
    fn note(&mut self, expr: &Expr, place: Place) {
        if let ExprKind::Parameter(parameter) = &expr.kind {
            let (parameter, offset) = (parameter.clone(), expr.span.start);
            self.0.push(PlacedParameter { parameter, offset, place });
        }
    }
}

impl Walk for Placed {
    fn query(&mut self, query: &Query) {
        let counts = query.limit.iter().map(|limit| &limit.count).chain(&query.offset);
        counts.for_each(|count| self.note(count, Place::Count));
        query.walk(self);
    }

    fn table(&mut self, table: &Table) {
        if let TableKind::Call { call, .. } = &table.kind {
            let arguments = call.arguments.iter().map(|argument| &argument.value);
            arguments.for_each(|value| each_part(value, &mut |part| self.note(part, Place::Argument)));
        }
        table.walk(self);
    }

    fn expr(&mut self, expr: &Expr) {
        self.note(expr, Place::Value);
        match &expr.kind {
            ExprKind::Quantified { values: Quantity::List(list), .. } => self.note(list, Place::List),
            ExprKind::Chain { first, rest } => {
                let is_sum = |link: &Link| matches!(link.operator, BinaryOperator::Plus | BinaryOperator::Minus);
                rest.iter().filter(|link| is_sum(link)).for_each(|link| self.note(&link.operand, Place::Summand));
                if rest.first().is_some_and(is_sum) {
                    self.note(first, Place::Summand);
                }
            }
            _ => {}
        }
        expr.walk(self);
    }
}
