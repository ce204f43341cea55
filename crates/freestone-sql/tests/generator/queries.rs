//! Random queries.

use freestone_sql::tree::*;

use super::{SPAN, Source};

impl Source<'_> {
    pub fn query(&mut self, depth: usize) -> Query {
        let body = match self.choose(5) {
            4 if depth > 0 => self.chain(depth - 1),
            _ => self.body(depth),
        };
        let limit = self.maybe(|source| {
            let with_ties = source.flag();
            Limit { count: source.number(), percent: source.flag(), with_ties }
        });
        Query {
            with: if depth > 0 { self.maybe(|source| source.with(depth - 1)) } else { None },
            body,
            order_by: self.maybe(|source| match source.flag() {
                true => OrderBy::All(source.sort_order()),
                false => OrderBy::Keys(source.some(1, |source| source.sort_key(depth / 2))),
            }),
            limit,
            offset: self.maybe(Self::number),
            span: SPAN,
        }
    }

    fn with(&mut self, depth: usize) -> With {
        With {
            recursive: self.flag(),
            parts: self.some(1, |source| WithPart {
                name: source.name(),
                columns: source.some(0, Self::name),
                key: source.some(0, |source| SelectItem {
                    value: source.expression(depth / 2),
                    alias: source.maybe(Self::name),
                }),
                materialized: source.maybe(Self::flag),
                body: WithBody::Query(Box::new(source.query(depth))),
                span: SPAN,
            }),
        }
    }

    fn body(&mut self, depth: usize) -> QueryBody {
        match self.choose(6) {
            1 => QueryBody::Values(self.some(1, |source| source.some(1, |source| source.expression(depth / 2)))),
            2 => QueryBody::Table(self.object_name()),
            3 if depth > 0 => QueryBody::Pivot(Box::new(self.pivot(depth - 1, true))),
            4 if depth > 0 => QueryBody::Unpivot(Box::new(self.unpivot(depth - 1, true))),
            _ => QueryBody::Select(Box::new(self.select(depth))),
        }
    }

    /// UNION and EXCEPT, or INTERSECT.
    fn chain(&mut self, depth: usize) -> QueryBody {
        let operators: &[SetOperator] = match self.flag() {
            true => &[SetOperator::Union, SetOperator::Except],
            false => &[SetOperator::Intersect],
        };
        let first = Box::new(self.operand(depth));
        let rest = self.some(1, |source| {
            let operator = source.pick(operators);
            let (all, by_name) = (source.flag(), operator == SetOperator::Union && source.flag());
            SetLink { operator, all, by_name, span: SPAN, operand: source.operand(depth) }
        });
        QueryBody::Chain { first, rest }
    }

    fn operand(&mut self, depth: usize) -> QueryBody {
        if self.choose(3) < 2 {
            return self.body(depth);
        }
        let mut query = self.query(depth);
        query.offset = Some(self.number());
        QueryBody::Nested(Box::new(query))
    }

    fn select(&mut self, depth: usize) -> Select {
        let depth = depth / 2;
        Select {
            distinct: self.maybe(|source| match source.flag() {
                true => Distinct::Rows,
                false => Distinct::On(source.some(1, |source| source.expression(depth))),
            }),
            items: self.some(1, |source| source.item(depth)),
            from: self.some(0, |source| source.table(depth)),
            condition: self.maybe(|source| source.expression(depth)),
            group_by: match self.choose(3) {
                0 => GroupBy::None,
                1 => GroupBy::All,
                _ => GroupBy::Keys(self.some(1, |source| source.group_key(depth))),
            },
            having: self.maybe(|source| source.expression(depth)),
            windows: self.some(0, |source| NamedWindow { name: source.name(), window: source.window(depth) }),
            qualify: self.maybe(|source| Expr {
                // A name could be the alias of what stands before it.
                kind: ExprKind::Is { operand: source.boxed(0), negated: false, test: IsTest::Null },
                span: SPAN,
            }),
            sample: self.maybe(Self::sample),
            span: SPAN,
        }
    }

    pub fn item(&mut self, depth: usize) -> SelectItem {
        match self.choose(4) {
            3 => SelectItem { value: self.star(depth), alias: None },
            _ => SelectItem { value: self.expression(depth), alias: self.maybe(Self::name) },
        }
    }

    fn group_key(&mut self, depth: usize) -> GroupKey {
        match self.choose(5) {
            1 => GroupKey::Empty,
            2 => GroupKey::Rollup(self.some(1, |source| source.expression(depth))),
            3 => GroupKey::Cube(self.some(1, |source| source.expression(depth))),
            4 if depth > 0 => GroupKey::Sets(self.some(1, |source| source.group_key(depth - 1))),
            _ => GroupKey::Value(self.expression(depth)),
        }
    }

    fn sample(&mut self) -> Sample {
        Sample {
            count: self.number(),
            percent: self.flag(),
            method: self.maybe(Self::name),
            seed: self.maybe(Self::number),
        }
    }

    pub fn table(&mut self, depth: usize) -> Table {
        let kind = match self.choose(8) {
            7 => TableKind::Listing(Box::new(self.listing(depth))),
            1 => TableKind::File { path: self.text().value, options: self.some(0, Self::option) },
            2 if depth > 0 => TableKind::Query { query: Box::new(self.query(depth - 1)), lateral: self.flag() },
            3 if depth > 0 => {
                let mut call = Call { receiver: None, ..self.call(depth - 1) };
                call.name.parts = vec![Name { text: "f".to_owned(), quoted: false, span: SPAN }];
                TableKind::Call { call: Box::new(call), lateral: self.flag(), ordinality: self.flag() }
            }
            4 if depth > 0 => return self.join(depth - 1),
            5 if depth > 0 => TableKind::Pivot(Box::new(self.pivot(depth - 1, false))),
            6 if depth > 0 => TableKind::Unpivot(Box::new(self.unpivot(depth - 1, false))),
            _ => {
                let version = self.maybe(|source| Version::Number(source.number()));
                TableKind::Named { name: self.object_name(), version }
            }
        };
        Table { kind, alias: self.maybe(Self::alias), sample: self.maybe(Self::sample), span: SPAN }
    }

    fn listing(&mut self, depth: usize) -> Listing {
        let described = match self.choose(3) {
            0 if depth > 0 => {
                let query = self.query(depth - 1);
                // `DESCRIBE TABLE t` is that of a table.
                match query.to_string().starts_with("TABLE ") {
                    true => Described::Table(self.object_name()),
                    false => Described::Query(Box::new(query)),
                }
            }
            1 => Described::File(self.text().value),
            _ => Described::Table(self.object_name()),
        };
        match self.choose(4) {
            0 => Listing::Tables,
            1 => Listing::AllTables,
            2 => Listing::Summarize(described),
            _ => Listing::Describe(described),
        }
    }

    fn alias(&mut self) -> TableAlias {
        TableAlias { name: self.name(), columns: self.some(0, Self::name) }
    }

    fn join(&mut self, depth: usize) -> Table {
        let mut first = self.table(depth);
        if matches!(first.kind, TableKind::Join { .. }) {
            first.alias = Some(self.alias());
        }
        let rest = self.some(1, |source| {
            let kinds = [JoinKind::Inner, JoinKind::Full, JoinKind::Semi, JoinKind::RightAnti, JoinKind::Left];
            let (kind, condition) = match source.choose(5) {
                0 => (JoinKind::Cross, JoinCondition::None),
                1 => (JoinKind::Positional, JoinCondition::None),
                2 => (source.pick(&kinds), JoinCondition::Natural),
                3 => (source.pick(&kinds), JoinCondition::On(source.boxed(depth))),
                _ => (source.pick(&kinds), JoinCondition::Using(source.some(1, Self::name))),
            };
            let may_be_asof = matches!(condition, JoinCondition::On(_) | JoinCondition::Using(_))
                && matches!(kind, JoinKind::Inner | JoinKind::Left | JoinKind::Full);
            Join { kind, asof: may_be_asof && source.flag(), table: source.table(depth), condition, span: SPAN }
        });
        let kind = TableKind::Join { first: Box::new(first), rest };
        Table { kind, alias: None, sample: None, span: SPAN }
    }

    /// The rows of a PIVOT, before which there is nothing to refer to.
    fn source(&mut self, depth: usize) -> Table {
        fn without_lateral(table: &mut Table) {
            match &mut table.kind {
                TableKind::Query { lateral, .. } | TableKind::Call { lateral, .. } => *lateral = false,
                TableKind::Join { first, .. } => without_lateral(first),
                TableKind::Pivot(pivot) => without_lateral(&mut pivot.source),
                TableKind::Unpivot(unpivot) => without_lateral(&mut unpivot.source),
                TableKind::Named { .. } | TableKind::File { .. } | TableKind::Listing(_) => {}
            }
        }
        let mut table = self.table(depth);
        without_lateral(&mut table);
        // `PIVOT (a JOIN b …)` would be a call.
        if table.to_string().starts_with('(') && !matches!(table.kind, TableKind::Query { .. }) {
            table.kind = TableKind::Named { name: self.object_name(), version: None };
        }
        table
    }

    /// A PIVOT as a query, or behind a table.
    fn pivot(&mut self, depth: usize, is_query: bool) -> Pivot {
        let columns = self.some(1, |source| PivotColumn {
            value: source.expression(depth),
            values: match source.choose(3) {
                0 if is_query => None,
                1 => Some(PivotValues::Query(Box::new(source.query(depth)))),
                // A query alone is a query of the values.
                _ => Some(PivotValues::List(
                    source.some(1, |source| SelectItem { value: source.expression(depth), alias: Some(source.name()) }),
                )),
            },
        });
        Pivot {
            source: self.source(depth),
            columns,
            aggregates: self.some(1, |source| SelectItem {
                value: Expr { kind: ExprKind::Call(Box::new(source.call(depth))), span: SPAN },
                alias: source.maybe(Self::name),
            }),
            group_by: self.some(0, |source| source.expression(depth)),
        }
    }

    fn unpivot(&mut self, depth: usize, is_query: bool) -> Unpivot {
        let names = |source: &mut Self| UnpivotNames { name: source.name(), values: source.some(1, Self::name) };
        Unpivot {
            source: self.source(depth),
            include_nulls: self.flag(),
            columns: self.some(1, |source| SelectItem {
                value: Expr { kind: ExprKind::Column(source.object_name()), span: SPAN },
                alias: source.maybe(Self::name),
            }),
            into: if is_query { self.maybe(names) } else { Some(names(self)) },
        }
    }
}
