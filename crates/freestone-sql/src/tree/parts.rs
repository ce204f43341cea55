//! What stands in a tree: the parts of an expression, and walks over all of a query, once to read and once to change it.

use super::*;
use crate::with_stack;

/// The functions and the trait of one kind of walk. `$mut` is `mut` for the one that changes trees.
macro_rules! walks {
    ($(#[$doc:meta])* $walk:ident, $inside:ident, $parts:ident, $queries:ident $(, $mut:tt)?) => {
        $(#[$doc])*
        ///
        /// Each method visits what is within its argument. One that does more calls
        #[doc = concat!("`", stringify!($inside), "`")]
        /// of its argument before or after it, or not at all.
        pub trait $walk {
            /// A query.
            fn query(&mut self, query: &$($mut)? Query) {
                query.$inside(self);
            }

            /// A part of WITH, and whether it may refer to itself.
            fn with_part(&mut self, part: &$($mut)? WithPart, _recursive: bool) {
                part.$inside(self);
            }

            /// The rows of a query, or an operand of UNION and the like.
            fn body(&mut self, body: &$($mut)? QueryBody) {
                body.$inside(self);
            }

            /// A SELECT.
            fn select(&mut self, select: &$($mut)? Select) {
                select.$inside(self);
            }

            /// What stands in FROM.
            fn table(&mut self, table: &$($mut)? Table) {
                table.$inside(self);
            }

            /// What DESCRIBE and SUMMARIZE in FROM are about.
            fn described(&mut self, described: &$($mut)? Described) {
                if let Described::Query(query) = described {
                    self.query(query);
                }
            }

            /// An expression.
            fn expr(&mut self, expr: &$($mut)? Expr) {
                expr.$inside(self);
            }
        }

        impl Query {
            /// Visits what is within it.
            pub fn $inside<W: $walk + ?Sized>(&$($mut)? self, walk: &mut W) {
                with_stack(|| {
                    if let Some(with) = &$($mut)? self.with {
                        let recursive = with.recursive;
                        for part in &$($mut)? with.parts {
                            walk.with_part(part, recursive);
                        }
                    }
                    walk.body(&$($mut)? self.body);
                    if let Some(OrderBy::Keys(keys)) = &$($mut)? self.order_by {
                        for key in keys {
                            walk.expr(&$($mut)? key.value);
                        }
                    }
                    if let Some(limit) = &$($mut)? self.limit {
                        walk.expr(&$($mut)? limit.count);
                    }
                    if let Some(offset) = &$($mut)? self.offset {
                        walk.expr(offset);
                    }
                });
            }
        }

        impl WithPart {
            /// Visits its key and its query. A statement that writes is not visited.
            pub fn $inside<W: $walk + ?Sized>(&$($mut)? self, walk: &mut W) {
                for item in &$($mut)? self.key {
                    walk.expr(&$($mut)? item.value);
                }
                if let WithBody::Query(query) = &$($mut)? self.body {
                    walk.query(query);
                }
            }
        }

        impl QueryBody {
            /// Visits what is within it.
            pub fn $inside<W: $walk + ?Sized>(&$($mut)? self, walk: &mut W) {
                match self {
                    QueryBody::Select(select) => walk.select(select),
                    QueryBody::Values(rows) => {
                        for row in rows {
                            for value in row {
                                walk.expr(value);
                            }
                        }
                    }
                    QueryBody::Table(_) => {}
                    QueryBody::Nested(query) => walk.query(query),
                    QueryBody::Chain { first, rest } => {
                        walk.body(first);
                        for link in rest {
                            walk.body(&$($mut)? link.operand);
                        }
                    }
                    QueryBody::Pivot(pivot) => pivot.$inside(walk),
                    QueryBody::Unpivot(unpivot) => unpivot.$inside(walk),
                }
            }
        }

        impl Select {
            /// Visits what is within it.
            pub fn $inside<W: $walk + ?Sized>(&$($mut)? self, walk: &mut W) {
                if let Some(Distinct::On(keys)) = &$($mut)? self.distinct {
                    for key in keys {
                        walk.expr(key);
                    }
                }
                for item in &$($mut)? self.items {
                    walk.expr(&$($mut)? item.value);
                }
                for table in &$($mut)? self.from {
                    walk.table(table);
                }
                if let Some(condition) = &$($mut)? self.condition {
                    walk.expr(condition);
                }
                if let GroupBy::Keys(keys) = &$($mut)? self.group_by {
                    for key in keys {
                        key.$inside(walk);
                    }
                }
                if let Some(having) = &$($mut)? self.having {
                    walk.expr(having);
                }
                for named in &$($mut)? self.windows {
                    named.window.$parts(&mut |part| walk.expr(part));
                }
                if let Some(qualify) = &$($mut)? self.qualify {
                    walk.expr(qualify);
                }
                if let Some(sample) = &$($mut)? self.sample {
                    sample.$inside(walk);
                }
            }
        }

        impl GroupKey {
            fn $inside<W: $walk + ?Sized>(&$($mut)? self, walk: &mut W) {
                match self {
                    GroupKey::Value(value) => walk.expr(value),
                    GroupKey::Empty => {}
                    GroupKey::Rollup(values) | GroupKey::Cube(values) => {
                        for value in values {
                            walk.expr(value);
                        }
                    }
                    GroupKey::Sets(keys) => {
                        for key in keys {
                            key.$inside(walk);
                        }
                    }
                }
            }
        }

        impl Sample {
            fn $inside<W: $walk + ?Sized>(&$($mut)? self, walk: &mut W) {
                walk.expr(&$($mut)? self.count);
                if let Some(seed) = &$($mut)? self.seed {
                    walk.expr(seed);
                }
            }
        }

        impl Table {
            /// Visits what is within it.
            pub fn $inside<W: $walk + ?Sized>(&$($mut)? self, walk: &mut W) {
                if let Some(sample) = &$($mut)? self.sample {
                    sample.$inside(walk);
                }
                match &$($mut)? self.kind {
                    TableKind::Named { .. } | TableKind::File { .. } => {}
                    TableKind::Call { call, .. } => call.$parts(&mut |part| walk.expr(part)),
                    TableKind::Query { query, .. } => walk.query(query),
                    TableKind::Join { first, rest } => {
                        walk.table(first);
                        for join in rest {
                            walk.table(&$($mut)? join.table);
                            if let JoinCondition::On(condition) = &$($mut)? join.condition {
                                walk.expr(condition);
                            }
                        }
                    }
                    TableKind::Pivot(pivot) => pivot.$inside(walk),
                    TableKind::Unpivot(unpivot) => unpivot.$inside(walk),
                    TableKind::Listing(listing) => match &$($mut)? **listing {
                        Listing::Describe(described) | Listing::Summarize(described) => walk.described(described),
                        Listing::Tables | Listing::AllTables => {}
                    },
                }
            }
        }

        impl Pivot {
            fn $inside<W: $walk + ?Sized>(&$($mut)? self, walk: &mut W) {
                walk.table(&$($mut)? self.source);
                for column in &$($mut)? self.columns {
                    walk.expr(&$($mut)? column.value);
                    match &$($mut)? column.values {
                        Some(PivotValues::List(items)) => {
                            for item in items {
                                walk.expr(&$($mut)? item.value);
                            }
                        }
                        Some(PivotValues::Query(query)) => walk.query(query),
                        None => {}
                    }
                }
                for item in &$($mut)? self.aggregates {
                    walk.expr(&$($mut)? item.value);
                }
                for key in &$($mut)? self.group_by {
                    walk.expr(key);
                }
            }
        }

        impl Unpivot {
            fn $inside<W: $walk + ?Sized>(&$($mut)? self, walk: &mut W) {
                walk.table(&$($mut)? self.source);
                for item in &$($mut)? self.columns {
                    walk.expr(&$($mut)? item.value);
                }
            }
        }

        impl Expr {
            /// Visits its parts, and the queries that stand in it.
            pub fn $inside<W: $walk + ?Sized>(&$($mut)? self, walk: &mut W) {
                with_stack(|| {
                    self.$parts(&mut |part| walk.expr(part));
                    self.$queries(&mut |query| walk.query(query));
                });
            }

            /// Calls `on` for the queries that stand in it, without those of its parts.
            pub fn $queries(&$($mut)? self, on: &mut dyn FnMut(&$($mut)? Query)) {
                match &$($mut)? self.kind {
                    ExprKind::Exists(query)
                    | ExprKind::Subquery(query)
                    | ExprKind::ListOfQuery(query)
                    | ExprKind::In { set: InSet::Query(query), .. }
                    | ExprKind::Quantified { values: Quantity::Query(query), .. } => on(query),
                    _ => {}
                }
            }

            /// Calls `on` for the expressions that stand in it, without their parts.
            pub fn $parts(&$($mut)? self, on: &mut dyn FnMut(&$($mut)? Expr)) {
                match &$($mut)? self.kind {
                    ExprKind::Columns(one)
                    | ExprKind::Unpacked(one)
                    | ExprKind::Unary { operand: one, .. }
                    | ExprKind::Is { operand: one, .. }
                    | ExprKind::Cast { operand: one, .. }
                    | ExprKind::Interval { value: one, .. }
                    | ExprKind::Collate { operand: one, .. }
                    | ExprKind::Lambda { body: one, .. }
                    | ExprKind::Field { operand: one, .. } => on(one),
                    ExprKind::AtTimeZone { operand: one, zone: other }
                    | ExprKind::Subscript { operand: one, index: other } => {
                        on(one);
                        on(other);
                    }
                    ExprKind::Star(star) => {
                        for (value, _) in &$($mut)? star.replace {
                            on(value);
                        }
                    }
                    ExprKind::Chain { first, rest } => {
                        on(first);
                        for link in rest {
                            on(&$($mut)? link.operand);
                        }
                    }
                    ExprKind::Like { operand, pattern, escape, .. } => {
                        on(operand);
                        on(pattern);
                        if let Some(escape) = escape {
                            on(escape);
                        }
                    }
                    ExprKind::Between { operand, low, high, .. } => {
                        on(operand);
                        on(low);
                        on(high);
                    }
                    ExprKind::In { operand, set, .. } => {
                        on(operand);
                        match set {
                            InSet::Values(values) => {
                                for value in values {
                                    on(value);
                                }
                            }
                            InSet::List(list) => on(list),
                            InSet::Query(_) => {}
                        }
                    }
                    ExprKind::Quantified { operand, values, .. } => {
                        on(operand);
                        if let Quantity::List(list) = values {
                            on(list);
                        }
                    }
                    ExprKind::Case(case) => case.$parts(on),
                    ExprKind::Call(call) => call.$parts(on),
                    ExprKind::Special(call) => call.$parts(on),
                    ExprKind::Row(values) | ExprKind::List(values) => {
                        for value in values {
                            on(value);
                        }
                    }
                    ExprKind::Struct(fields) => {
                        for (_, value) in fields {
                            on(value);
                        }
                    }
                    ExprKind::Map(entries) => {
                        for (key, value) in entries {
                            on(key);
                            on(value);
                        }
                    }
                    ExprKind::Comprehension(inner) => inner.$parts(on),
                    ExprKind::Slice(slice) => slice.$parts(on),
                    ExprKind::Literal(_)
                    | ExprKind::Parameter(_)
                    | ExprKind::Column(_)
                    | ExprKind::Position(_)
                    | ExprKind::Default
                    | ExprKind::SessionValue(_)
                    | ExprKind::Exists(_)
                    | ExprKind::Subquery(_)
                    | ExprKind::ListOfQuery(_)
                    | ExprKind::TypedText { .. } => {}
                }
            }
        }

        impl Case {
            fn $parts(&$($mut)? self, on: &mut dyn FnMut(&$($mut)? Expr)) {
                if let Some(operand) = &$($mut)? self.operand {
                    on(operand);
                }
                for (condition, result) in &$($mut)? self.branches {
                    on(condition);
                    on(result);
                }
                if let Some(otherwise) = &$($mut)? self.otherwise {
                    on(otherwise);
                }
            }
        }

        impl Comprehension {
            fn $parts(&$($mut)? self, on: &mut dyn FnMut(&$($mut)? Expr)) {
                on(&$($mut)? self.value);
                on(&$($mut)? self.list);
                if let Some(condition) = &$($mut)? self.condition {
                    on(condition);
                }
            }
        }

        impl Slice {
            fn $parts(&$($mut)? self, on: &mut dyn FnMut(&$($mut)? Expr)) {
                on(&$($mut)? self.operand);
                for bound in [&$($mut)? self.low, &$($mut)? self.high, &$($mut)? self.step] {
                    if let Some(bound) = bound {
                        on(bound);
                    }
                }
            }
        }

        impl Call {
            /// Calls `on` for the expressions that stand in it, without their parts.
            pub fn $parts(&$($mut)? self, on: &mut dyn FnMut(&$($mut)? Expr)) {
                if let Some(receiver) = &$($mut)? self.receiver {
                    on(receiver);
                }
                for argument in &$($mut)? self.arguments {
                    on(&$($mut)? argument.value);
                }
                for key in &$($mut)? self.order_by {
                    on(&$($mut)? key.value);
                }
                for key in &$($mut)? self.within_group {
                    on(&$($mut)? key.value);
                }
                if let Some(condition) = &$($mut)? self.filter {
                    on(condition);
                }
                if let Some(Over::Window(window)) = &$($mut)? self.over {
                    window.$parts(on);
                }
            }
        }

        impl Window {
            fn $parts(&$($mut)? self, on: &mut dyn FnMut(&$($mut)? Expr)) {
                for key in &$($mut)? self.partition_by {
                    on(key);
                }
                for key in &$($mut)? self.order_by {
                    on(&$($mut)? key.value);
                }
                let Some(frame) = &$($mut)? self.frame else { return };
                if let FrameBound::Preceding(offset) | FrameBound::Following(offset) = &$($mut)? frame.start {
                    on(offset);
                }
                if let Some(FrameBound::Preceding(offset) | FrameBound::Following(offset)) = &$($mut)? frame.end {
                    on(offset);
                }
            }
        }

        impl SpecialCall {
            fn $parts(&$($mut)? self, on: &mut dyn FnMut(&$($mut)? Expr)) {
                match self {
                    SpecialCall::Extract { value, .. } => on(value),
                    SpecialCall::Position { needle, value } => {
                        on(needle);
                        on(value);
                    }
                    SpecialCall::Substring { value, start, length } => {
                        on(value);
                        for bound in [start, length] {
                            if let Some(bound) = bound {
                                on(bound);
                            }
                        }
                    }
                    SpecialCall::Trim { characters, value, .. } => {
                        on(value);
                        if let Some(characters) = characters {
                            on(characters);
                        }
                    }
                    SpecialCall::Overlay { value, other, start, length } => {
                        on(value);
                        on(other);
                        on(start);
                        if let Some(length) = length {
                            on(length);
                        }
                    }
                }
            }
        }
    };
}

walks! {
    /// Visits a query with all that is within it.
    Walk, walk, parts, queries
}

walks! {
    /// Visits a query with all that is within it, and may change it.
    WalkMut, walk_mut, parts_mut, queries_mut, mut
}

/// Calls `on` for an expression and all of its parts, without those of subqueries.
pub fn each_part(expr: &Expr, on: &mut dyn FnMut(&Expr)) {
    with_stack(|| {
        on(expr);
        expr.parts(&mut |part| each_part(part, on));
    });
}

/// Calls `on` for an expression and all of its parts, which it may change, without those of subqueries. A part is visited
/// after its own parts.
pub fn each_part_mut(expr: &mut Expr, on: &mut dyn FnMut(&mut Expr)) {
    with_stack(|| {
        expr.parts_mut(&mut |part| each_part_mut(part, on));
        on(expr);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Statement, parse_statement};

    /// A query of all forms, whose parts are named ä.
    const ALL: &str = "WITH w AS (SELECT ä) SELECT DISTINCT ON (ä) t.* REPLACE (ä AS a), COLUMNS(ä), f(*COLUMNS(ä)), -ä, ä IS NULL, \
        ä::INT, INTERVAL (ä) DAY, ä COLLATE c, g(lambda a: ä), (f(ä)).b, ä AT TIME ZONE ä, ä[ä], ä + ä, \
        ä LIKE ä ESCAPE ä, ä BETWEEN ä AND ä, ä IN (ä, ä), ä IN (SELECT ä), ä = ANY(ä), ä < ALL(SELECT ä), \
        CASE ä WHEN ä THEN ä ELSE ä END, sum(ä ORDER BY ä) FILTER (WHERE ä) OVER (PARTITION BY ä ORDER BY ä \
        ROWS BETWEEN ä PRECEDING AND ä FOLLOWING), percentile(ä) WITHIN GROUP (ORDER BY ä), (ä, ä), [ä], {'a': ä}, \
        MAP {ä: ä}, [ä FOR a IN ä IF ä], ä[ä:ä:ä], EXISTS (SELECT ä), (SELECT ä), ARRAY(SELECT ä), \
        EXTRACT(YEAR FROM ä), POSITION(ä IN ä), SUBSTRING(ä FROM ä FOR ä), TRIM(BOTH ä FROM ä), \
        OVERLAY(ä PLACING ä FROM ä FOR ä) FROM f(ä), (SELECT ä) AS q, t JOIN u ON ä, \
        (DESCRIBE SELECT ä) AS d, (PIVOT t ON ä IN (ä) USING sum(ä) GROUP BY ä) AS p, \
        (UNPIVOT t ON ä) AS n, v AS s TABLESAMPLE 20 ROWS WHERE ä GROUP BY ä, ROLLUP (ä), CUBE (ä), \
        GROUPING SETS (ä) HAVING ä WINDOW o AS (ORDER BY ä) QUALIFY ä UNION VALUES (ä) ORDER BY ä LIMIT ä OFFSET ä";

    struct Count(usize);

    impl Walk for Count {
        fn expr(&mut self, expr: &Expr) {
            self.0 += usize::from(expr.bare_text() == "ä");
            expr.walk(self);
        }
    }

    struct Rename;

    impl WalkMut for Rename {
        fn expr(&mut self, expr: &mut Expr) {
            expr.walk_mut(self);
            if let ExprKind::Column(name) = &mut expr.kind {
                name.parts.iter_mut().for_each(|part| part.text = part.text.replace('ä', "y"));
            }
        }
    }

    fn query(statement: &mut Statement) -> &mut Query {
        match &mut statement.kind {
            StatementKind::Query(query) => query,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn walks_visit_all_expressions() {
        let mut statement = parse_statement(ALL).unwrap_or_else(|error| panic!("{}", error.render(ALL)));
        let mut count = Count(0);
        count.query(query(&mut statement));
        assert_eq!(count.0, ALL.matches('ä').count());
        let renamed = statement.to_string().replace('ä', "y");
        Rename.query(query(&mut statement));
        assert_eq!(statement.to_string(), renamed);
    }

    #[test]
    fn parts_are_visited_without_subqueries() {
        let mut expr = crate::parse_expression("a + f(b, (SELECT c))[d]").unwrap();
        let mut found = vec![];
        each_part(&expr, &mut |part| found.push(part.to_string()));
        assert_eq!(
            found,
            ["a + f(b, (SELECT c))[d]", "a", "f(b, (SELECT c))[d]", "f(b, (SELECT c))", "b", "(SELECT c)", "d"]
        );
        each_part_mut(&mut expr, &mut |part| {
            if let ExprKind::Column(name) = &mut part.kind {
                name.parts[0].text.push('1');
            }
        });
        assert_eq!(expr.to_string(), "a1 + f(b1, (SELECT c))[d1]");
    }
}
