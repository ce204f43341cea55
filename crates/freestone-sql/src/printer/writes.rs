//! Statements that change rows as SQL.

use std::fmt::{Display, Formatter, Result};

use super::{Clause, Listed, Optional, Quoted, Separated, commas, when};
use crate::tree::*;

impl Display for Write {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            Write::Insert(insert) => insert.fmt(f),
            Write::Update(update) => update.fmt(f),
            Write::Delete(delete) => delete.fmt(f),
            Write::Merge(merge) => merge.fmt(f),
        }
    }
}

/// WITH before a statement.
fn with(f: &mut Formatter, with: &Option<With>) -> Result {
    with.as_ref().map_or(Ok(()), |with| write!(f, "{with} "))
}

impl Display for Insert {
    fn fmt(&self, f: &mut Formatter) -> Result {
        with(f, &self.with)?;
        let or = match &self.on_conflict {
            Some(OnConflict::Ignore) => "OR IGNORE ",
            Some(OnConflict::Replace) => "OR REPLACE ",
            _ => "",
        };
        write!(f, "INSERT {or}INTO {}{}{}", self.table, Optional(" AS ", &self.alias), Listed(" ", &self.columns))?;
        f.write_str(match self.overriding_system {
            Some(true) => " OVERRIDING SYSTEM VALUE",
            Some(false) => " OVERRIDING USER VALUE",
            None => "",
        })?;
        f.write_str(when(self.by_name, " BY NAME"))?;
        match &self.rows {
            Some(rows) => write!(f, " {rows}")?,
            None => f.write_str(" DEFAULT VALUES")?,
        }
        match &self.on_conflict {
            Some(OnConflict::Nothing(key)) => write!(f, " ON CONFLICT{} DO NOTHING", Optional(" ", key))?,
            Some(OnConflict::Update { key, set, condition }) => {
                write!(f, " ON CONFLICT{} DO UPDATE SET {}", Optional(" ", key), commas(set))?;
                Optional(" WHERE ", condition).fmt(f)?;
            }
            Some(OnConflict::Ignore | OnConflict::Replace) | None => {}
        }
        Clause(" RETURNING ", &self.returning).fmt(f)
    }
}

impl Display for ConflictKey {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            ConflictKey::Columns(columns) => write!(f, "({})", commas(columns)),
            ConflictKey::Constraint(name) => write!(f, "ON CONSTRAINT {name}"),
        }
    }
}

impl Display for Assignment {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let (columns, value) = (commas(&self.columns), self.value.to_string());
        let is_whole = matches!(self.value.kind, ExprKind::Row(_) | ExprKind::Subquery(_));
        match self.is_row {
            false => write!(f, "{columns} = {value}"),
            // Parentheses at the beginning would be the whole row.
            true if value.starts_with('(') && !is_whole => write!(f, "({columns}) = ({value})"),
            true => write!(f, "({columns}) = {value}"),
        }
    }
}

impl Display for Update {
    fn fmt(&self, f: &mut Formatter) -> Result {
        with(f, &self.with)?;
        write!(f, "UPDATE {}{} SET {}", self.table, Optional(" AS ", &self.alias), commas(&self.set))?;
        write!(f, "{}{}", Clause(" FROM ", &self.from), Optional(" WHERE ", &self.condition))?;
        Clause(" RETURNING ", &self.returning).fmt(f)
    }
}

impl Display for Delete {
    fn fmt(&self, f: &mut Formatter) -> Result {
        with(f, &self.with)?;
        write!(f, "DELETE FROM {}{}", self.table, Optional(" AS ", &self.alias))?;
        write!(f, "{}{}", Clause(" USING ", &self.using), Optional(" WHERE ", &self.condition))?;
        Clause(" RETURNING ", &self.returning).fmt(f)
    }
}

impl Display for Merge {
    fn fmt(&self, f: &mut Formatter) -> Result {
        with(f, &self.with)?;
        write!(f, "MERGE INTO {}{} USING {}", self.table, Optional(" AS ", &self.alias), self.source)?;
        write!(f, "{} {}", self.condition, Separated(&self.clauses, " "))?;
        Clause(" RETURNING ", &self.returning).fmt(f)
    }
}

impl Display for MergeClause {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let matched = match self.matched {
            Matched::Matched => "MATCHED",
            Matched::NotByTarget => "NOT MATCHED",
            Matched::NotBySource => "NOT MATCHED BY SOURCE",
        };
        write!(f, "WHEN {matched}{} THEN ", Optional(" AND ", &self.condition))?;
        match &self.action {
            MergeAction::Nothing => f.write_str("DO NOTHING"),
            MergeAction::Delete => f.write_str("DELETE"),
            MergeAction::UpdateAll(MergeColumns::ByPosition) => f.write_str("UPDATE SET *"),
            MergeAction::UpdateAll(MergeColumns::ByName) => f.write_str("UPDATE BY NAME"),
            MergeAction::InsertAll(MergeColumns::ByPosition) => f.write_str("INSERT *"),
            MergeAction::InsertAll(MergeColumns::ByName) => f.write_str("INSERT BY NAME"),
            MergeAction::Error(message) => write!(f, "ERROR{}", Optional(" ", message)),
            MergeAction::Update(set) => write!(f, "UPDATE SET {}", commas(set)),
            MergeAction::Insert { values, .. } if values.is_empty() => f.write_str("INSERT DEFAULT VALUES"),
            MergeAction::Insert { columns, values } => {
                write!(f, "INSERT{} VALUES ({})", Listed(" ", columns), commas(values))
            }
        }
    }
}

impl Display for CopyFrom {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "COPY {}{} FROM ", self.table, Listed(" ", &self.columns))?;
        match &self.path {
            Some(path) => Quoted(path).fmt(f)?,
            None => f.write_str("STDIN")?,
        }
        Listed(" ", &self.options).fmt(f)
    }
}

impl Display for CopyTo {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match &self.source {
            CopySource::Table(table, columns) => write!(f, "COPY {table}{} TO ", Listed(" ", columns))?,
            CopySource::Query(query) => write!(f, "COPY ({query}) TO ")?,
        }
        match &self.target {
            CopyTarget::Client => f.write_str("STDOUT")?,
            CopyTarget::File(path) => Quoted(path).fmt(f)?,
            CopyTarget::Computed(path) => write!(f, "({path})")?,
        }
        match self.order.as_slice() {
            [] => Listed(" ", &self.options).fmt(f),
            keys if self.options.is_empty() => write!(f, " (ORDER_BY ({}))", commas(keys)),
            keys => write!(f, " ({}, ORDER_BY ({}))", commas(&self.options), commas(keys)),
        }
    }
}

impl Display for Truncate {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let if_exists = when(self.if_exists, "IF EXISTS ");
        write!(f, "TRUNCATE {if_exists}{}{}", commas(&self.tables), when(self.restart_identity, " RESTART IDENTITY"))
    }
}
