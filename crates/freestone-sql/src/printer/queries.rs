//! Queries as SQL.

use std::fmt::{Display, Formatter, Result, Write};

use super::{Clause, Listed, Optional, Quoted, Separated, commas, when};
use crate::tree::*;

impl Display for Query {
    fn fmt(&self, f: &mut Formatter) -> Result {
        if let Some(with) = &self.with {
            write!(f, "{with} ")?;
        }
        write!(f, "{}{}", self.body, Optional(" ORDER BY ", &self.order_by))?;
        match &self.limit {
            Some(limit) if limit.with_ties => {
                let percent = when(limit.percent, " PERCENT");
                let offset = Optional(" OFFSET ", &self.offset);
                return write!(f, "{offset} FETCH FIRST {}{percent} ROWS WITH TIES", limit.count);
            }
            Some(limit) => write!(f, " LIMIT {}{}", limit.count, when(limit.percent, " PERCENT"))?,
            None => {}
        }
        Optional(" OFFSET ", &self.offset).fmt(f)
    }
}

impl Display for With {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "WITH {}{}", when(self.recursive, "RECURSIVE "), commas(&self.parts))
    }
}

impl Display for WithPart {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "{}{}{} AS ", self.name, Listed(" ", &self.columns), Listed(" USING KEY ", &self.key))?;
        f.write_str(match self.materialized {
            Some(true) => "MATERIALIZED ",
            Some(false) => "NOT MATERIALIZED ",
            None => "",
        })?;
        match &self.body {
            WithBody::Query(query) => write!(f, "({query})"),
            WithBody::Write(write) => write!(f, "({write})"),
        }
    }
}

impl Display for QueryBody {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            QueryBody::Select(select) => select.fmt(f),
            QueryBody::Values(rows) => {
                f.write_str("VALUES ")?;
                for (at, row) in rows.iter().enumerate() {
                    write!(f, "{}({})", when(at > 0, ", "), commas(row))?;
                }
                Ok(())
            }
            QueryBody::Table(name) => write!(f, "TABLE {name}"),
            QueryBody::Nested(query) => write!(f, "({query})"),
            QueryBody::Chain { first, rest } => {
                write!(f, "{first} {}", Separated(rest, " "))
            }
            QueryBody::Pivot(pivot) => {
                write!(f, "PIVOT {}{}", pivot.source, Clause(" ON ", &pivot.columns))?;
                write!(f, "{}{}", Clause(" USING ", &pivot.aggregates), Clause(" GROUP BY ", &pivot.group_by))
            }
            QueryBody::Unpivot(unpivot) => {
                let nulls = when(unpivot.include_nulls, " INCLUDE NULLS");
                write!(f, "UNPIVOT {}{nulls} ON {}", unpivot.source, commas(&unpivot.columns))?;
                match &unpivot.into {
                    Some(UnpivotNames { name, values }) => write!(f, " INTO NAME {name} VALUE {}", commas(values)),
                    None => Ok(()),
                }
            }
        }
    }
}

impl Display for SetLink {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let operator = match self.operator {
            SetOperator::Union => "UNION",
            SetOperator::Except => "EXCEPT",
            SetOperator::Intersect => "INTERSECT",
        };
        write!(f, "{operator}{}{} {}", when(self.all, " ALL"), when(self.by_name, " BY NAME"), self.operand)
    }
}

impl Display for Select {
    fn fmt(&self, f: &mut Formatter) -> Result {
        f.write_str("SELECT ")?;
        match &self.distinct {
            None => {}
            Some(Distinct::Rows) => f.write_str("DISTINCT ")?,
            Some(Distinct::On(keys)) => write!(f, "DISTINCT ON ({}) ", commas(keys))?,
        }
        write!(f, "{}{}", commas(&self.items), Clause(" FROM ", &self.from))?;
        write!(f, "{}{}", Optional(" WHERE ", &self.condition), self.group_by)?;
        write!(f, "{}{}", Optional(" HAVING ", &self.having), Clause(" WINDOW ", &self.windows))?;
        write!(f, "{}{}", Optional(" QUALIFY ", &self.qualify), Optional(" USING SAMPLE ", &self.sample))
    }
}

impl Display for SelectItem {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "{}{}", self.value, Optional(" AS ", &self.alias))
    }
}

impl Display for GroupBy {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            GroupBy::None => Ok(()),
            GroupBy::All => f.write_str(" GROUP BY ALL"),
            GroupBy::Keys(keys) => write!(f, " GROUP BY {}", commas(keys)),
        }
    }
}

impl Display for GroupKey {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            GroupKey::Value(value) => value.fmt(f),
            GroupKey::Empty => f.write_str("()"),
            GroupKey::Rollup(keys) => write!(f, "ROLLUP ({})", commas(keys)),
            GroupKey::Cube(keys) => write!(f, "CUBE ({})", commas(keys)),
            GroupKey::Sets(sets) => write!(f, "GROUPING SETS ({})", commas(sets)),
        }
    }
}

impl Display for NamedWindow {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "{} AS {}", self.name, self.window)
    }
}

impl Display for OrderBy {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            OrderBy::All(order) => write!(f, "ALL{order}"),
            OrderBy::Keys(keys) => commas(keys).fmt(f),
        }
    }
}

impl Display for SortKey {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "{}{}", self.value, self.order)
    }
}

impl Display for SortOrder {
    fn fmt(&self, f: &mut Formatter) -> Result {
        f.write_str(match self.descending {
            None => "",
            Some(true) => " DESC",
            Some(false) => " ASC",
        })?;
        f.write_str(match self.nulls_first {
            None => "",
            Some(true) => " NULLS FIRST",
            Some(false) => " NULLS LAST",
        })
    }
}

impl Table {
    /// Whether it stands alone, so that another part can follow it.
    fn is_join(&self) -> bool {
        matches!(self.kind, TableKind::Join { .. })
    }
}

/// A table, in parentheses if it is several.
struct Single<'a>(&'a Table);

impl Display for Single<'_> {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let Single(table) = self;
        let is_bare_join = table.is_join() && table.alias.is_none() && table.sample.is_none();
        if is_bare_join { write!(f, "({table})") } else { table.fmt(f) }
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let needs_parens = self.is_join() && (self.alias.is_some() || self.sample.is_some());
        if needs_parens {
            f.write_char('(')?;
        }
        self.kind.fmt(f)?;
        if needs_parens {
            f.write_char(')')?;
        }
        write!(f, "{}{}", Optional(" AS ", &self.alias), Optional(" TABLESAMPLE ", &self.sample))
    }
}

impl Display for TableKind {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            TableKind::Named { name, version } => write!(f, "{name}{}", Optional(" AT ", version)),
            TableKind::File { path, options } => write!(f, "{}{}", Quoted(path), Listed(" ", options)),
            TableKind::Call { call, lateral, ordinality } => {
                write!(f, "{}{call}{}", when(*lateral, "LATERAL "), when(*ordinality, " WITH ORDINALITY"))
            }
            TableKind::Query { query, lateral } => write!(f, "{}({query})", when(*lateral, "LATERAL ")),
            TableKind::Join { first, rest } => write!(f, "{} {}", Single(first), Separated(rest, " ")),
            TableKind::Pivot(pivot) => {
                let Pivot { source, columns, aggregates, group_by } = pivot.as_ref();
                write!(f, "{} PIVOT ({} FOR ", Single(source), commas(aggregates))?;
                write!(f, "{}{})", Separated(columns, " "), Clause(" GROUP BY ", group_by))
            }
            TableKind::Unpivot(unpivot) => {
                let nulls = when(unpivot.include_nulls, " INCLUDE NULLS");
                write!(f, "{} UNPIVOT{nulls} (", Single(&unpivot.source))?;
                if let Some(UnpivotNames { name, values }) = &unpivot.into {
                    match values.as_slice() {
                        [value] => write!(f, "{value} FOR {name} IN ")?,
                        values => write!(f, "({}) FOR {name} IN ", commas(values))?,
                    }
                }
                write!(f, "({}))", commas(&unpivot.columns))
            }
            TableKind::Listing(listing) => write!(f, "({listing})"),
        }
    }
}

impl Display for Listing {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            Listing::Describe(described) => write!(f, "DESCRIBE {described}"),
            Listing::Summarize(described) => write!(f, "SUMMARIZE {described}"),
            Listing::Tables => f.write_str("SHOW TABLES"),
            Listing::AllTables => f.write_str("SHOW ALL TABLES"),
        }
    }
}

impl Display for Version {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            Version::Number(value) => write!(f, "(VERSION => {value})"),
            Version::Time(value) => write!(f, "(TIMESTAMP => {value})"),
        }
    }
}

impl Display for TableAlias {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "{}{}", self.name, Listed("", &self.columns))
    }
}

impl Display for Join {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let kind = match self.kind {
            JoinKind::Inner => "",
            JoinKind::Left => "LEFT ",
            JoinKind::Right => "RIGHT ",
            JoinKind::Full => "FULL ",
            JoinKind::Semi => "SEMI ",
            JoinKind::RightSemi => "RIGHT SEMI ",
            JoinKind::Anti => "ANTI ",
            JoinKind::RightAnti => "RIGHT ANTI ",
            JoinKind::Cross => "CROSS ",
            JoinKind::Positional => "POSITIONAL ",
        };
        let natural = when(self.condition == JoinCondition::Natural, "NATURAL ");
        write!(f, "{natural}{}{kind}JOIN {}", when(self.asof, "ASOF "), Single(&self.table))?;
        self.condition.fmt(f)
    }
}

impl Display for JoinCondition {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            JoinCondition::None | JoinCondition::Natural => Ok(()),
            JoinCondition::On(condition) => write!(f, " ON {condition}"),
            JoinCondition::Using(columns) => write!(f, " USING ({})", commas(columns)),
        }
    }
}

impl Display for Sample {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "{} {}", self.count, if self.percent { "PERCENT" } else { "ROWS" })?;
        match &self.method {
            Some(method) => write!(f, " ({method}{})", Optional(", ", &self.seed)),
            None if self.seed.is_some() => write!(f, "{})", Optional(" REPEATABLE (", &self.seed)),
            None => Ok(()),
        }
    }
}

impl Display for PivotColumn {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let is_weak = self.value.precedence() < crate::parser::Precedence::Other;
        match is_weak {
            true => write!(f, "({})", self.value)?,
            false => self.value.fmt(f)?,
        }
        match &self.values {
            None => Ok(()),
            Some(PivotValues::List(values)) => write!(f, " IN ({})", commas(values)),
            Some(PivotValues::Query(query)) => write!(f, " IN ({query})"),
        }
    }
}
