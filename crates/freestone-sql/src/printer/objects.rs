//! Statements about objects other than tables as SQL.

use std::fmt::{Display, Formatter, Result};

use super::{Listed, Optional, commas, when};
use crate::tree::*;

impl Display for CreateView {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let (replace, temporary) = (when(self.or_replace, "OR REPLACE "), when(self.temporary, "TEMP "));
        let if_not_exists = when(self.if_not_exists, "IF NOT EXISTS ");
        let columns = Listed(" ", &self.columns);
        write!(f, "CREATE {replace}{temporary}VIEW {if_not_exists}{}{columns} AS {}", self.name, self.query)
    }
}

impl Display for RenameView {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let (materialized, if_exists) = (when(self.materialized, "MATERIALIZED "), when(self.if_exists, "IF EXISTS "));
        write!(f, "ALTER {materialized}VIEW {if_exists}{} RENAME TO {}", self.name, self.to)
    }
}

impl Display for CreateMaterializedView {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let (replace, if_not_exists) =
            (when(self.or_replace, "OR REPLACE "), when(self.if_not_exists, "IF NOT EXISTS "));
        write!(f, "CREATE {replace}MATERIALIZED VIEW {if_not_exists}{}", self.name)?;
        write!(f, "{}{}", Listed(" ", &self.columns), Listed(" WITH ", &self.options))?;
        write!(f, " AS {}{}", self.query, when(self.with_no_data, " WITH NO DATA"))
    }
}

impl Display for RefreshView {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let concurrently = when(self.concurrently, "CONCURRENTLY ");
        let no_data = when(self.with_no_data, " WITH NO DATA");
        write!(f, "REFRESH MATERIALIZED VIEW {concurrently}{}{no_data}", self.name)
    }
}

impl Display for CreateIndex {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let (unique, if_not_exists) = (when(self.unique, "UNIQUE "), when(self.if_not_exists, " IF NOT EXISTS"));
        write!(f, "CREATE {unique}INDEX{if_not_exists}{} ON {}", Optional(" ", &self.name), self.table)?;
        write!(f, "{} ({})", Optional(" USING ", &self.method), commas(&self.columns))
    }
}

impl Display for CreateSequence {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let (temporary, if_not_exists) = (when(self.temporary, "TEMP "), when(self.if_not_exists, "IF NOT EXISTS "));
        write!(f, "CREATE {temporary}SEQUENCE {if_not_exists}{}", self.name)?;
        self.options.iter().try_for_each(|option| write!(f, " {option}"))
    }
}

impl Display for SequenceOption {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            SequenceOption::As(data_type) => write!(f, "AS {data_type}"),
            SequenceOption::Start(value) => write!(f, "START {value}"),
            SequenceOption::Increment(value) => write!(f, "INCREMENT {value}"),
            SequenceOption::MinValue(Some(value)) => write!(f, "MINVALUE {value}"),
            SequenceOption::MinValue(None) => f.write_str("NO MINVALUE"),
            SequenceOption::MaxValue(Some(value)) => write!(f, "MAXVALUE {value}"),
            SequenceOption::MaxValue(None) => f.write_str("NO MAXVALUE"),
            SequenceOption::Cycle(true) => f.write_str("CYCLE"),
            SequenceOption::Cycle(false) => f.write_str("NO CYCLE"),
            SequenceOption::Cache(value) => write!(f, "CACHE {value}"),
        }
    }
}

impl Display for CreateMacro {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let (replace, parameters) = (when(self.or_replace, "OR REPLACE "), commas(&self.parameters));
        write!(f, "CREATE {replace}MACRO {}({parameters}) AS ", self.name)?;
        match &self.body {
            MacroBody::Value(value) => value.fmt(f),
            MacroBody::Table(query) => write!(f, "TABLE {query}"),
        }
    }
}

impl Display for MacroParameter {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "{}{}", self.name, Optional(" := ", &self.default))
    }
}

impl Display for CreateSchema {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "CREATE SCHEMA {}{}", when(self.if_not_exists, "IF NOT EXISTS "), self.name)
    }
}

impl Display for CreateType {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let (replace, if_not_exists) =
            (when(self.or_replace, "OR REPLACE "), when(self.if_not_exists, "IF NOT EXISTS "));
        write!(f, "CREATE {replace}TYPE {if_not_exists}{} AS {}", self.name, self.data_type)
    }
}

impl Display for Drop {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let kind = match self.kind {
            ObjectKind::Table => "TABLE",
            ObjectKind::View => "VIEW",
            ObjectKind::MaterializedView => "MATERIALIZED VIEW",
            ObjectKind::Index => "INDEX",
            ObjectKind::Sequence => "SEQUENCE",
            ObjectKind::Schema => "SCHEMA",
            ObjectKind::Type => "TYPE",
            ObjectKind::Macro => "MACRO",
            ObjectKind::TableMacro => "MACRO TABLE",
        };
        let (if_exists, cascade) = (when(self.if_exists, "IF EXISTS "), when(self.cascade, " CASCADE"));
        write!(f, "DROP {kind} {if_exists}{}{cascade}", commas(&self.names))
    }
}

impl Display for Comment {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let on = match self.on {
            CommentOn::Table => "TABLE",
            CommentOn::View => "VIEW",
            CommentOn::MaterializedView => "MATERIALIZED VIEW",
            CommentOn::Column => "COLUMN",
        };
        match &self.text {
            Some(text) => write!(f, "COMMENT ON {on} {} IS {text}", self.name),
            None => write!(f, "COMMENT ON {on} {} IS NULL", self.name),
        }
    }
}

impl Display for Advise {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "ADVISE{}", Optional(" ", &self.table))?;
        write!(f, "{}{}", Optional(" COPIES ", &self.copies), Optional(" BUDGET ", &self.budget))
    }
}

impl Display for Attach {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let if_not_exists = if self.if_not_exists { "IF NOT EXISTS " } else { "" };
        let options = Listed(" ", &self.options);
        write!(f, "ATTACH {if_not_exists}{}{}{options}", self.folder, Optional(" AS ", &self.name))
    }
}

/// Its options are not printed: they are secret.
impl Display for CreateSecret {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let or_replace = if self.or_replace { "OR REPLACE " } else { "" };
        let if_not_exists = if self.if_not_exists { " IF NOT EXISTS" } else { "" };
        write!(f, "CREATE {or_replace}SECRET{if_not_exists}{} (…)", Optional(" ", &self.name))
    }
}

impl Display for WhatIf {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "WHATIF {} DESIGN ({}) FOR {}", self.table, commas(&self.options), self.query)
    }
}

/// The statements of the database as a whole.
pub(super) fn maintenance(f: &mut Formatter, statement: &StatementKind) -> Result {
    match statement {
        StatementKind::Vacuum(table) => write!(f, "VACUUM{}", Optional(" ", table)),
        StatementKind::Analyze(None) => f.write_str("ANALYZE"),
        StatementKind::Analyze(Some((table, columns))) => write!(f, "ANALYZE {table}{}", Listed(" ", columns)),
        StatementKind::Check(table) => write!(f, "CHECK{}", Optional(" ", table)),
        StatementKind::Calibrate => f.write_str("CALIBRATE"),
        StatementKind::Attach(attach) => write!(f, "{attach}"),
        StatementKind::Detach { name, if_exists } => {
            write!(f, "DETACH {}{name}", if *if_exists { "IF EXISTS " } else { "" })
        }
        StatementKind::CreateSecret(create) => write!(f, "{create}"),
        StatementKind::DropSecret { name, if_exists } => {
            write!(f, "DROP SECRET {}{name}", if *if_exists { "IF EXISTS " } else { "" })
        }
        StatementKind::BackupTo(folder) => write!(f, "BACKUP TO {folder}"),
        StatementKind::RestoreFrom(folder) => write!(f, "RESTORE FROM {folder}"),
        StatementKind::ExportDatabase { folder, options } => {
            write!(f, "EXPORT DATABASE {folder}{}", Listed(" ", options))
        }
        StatementKind::ImportDatabase(folder) => write!(f, "IMPORT DATABASE {folder}"),
        _ => Ok(()),
    }
}
