//! From the tree of a statement to the command that a session executes.

use std::fmt;

use freestone_sql::tree::{
    Advise, Attach, CopyFrom as WrittenCopyFrom, CopyTarget, CopyTo as WrittenCopyTo, Execute, Explain, Expr, ExprKind,
    Literal, ObjectName, OptionItem, Parameter, Prepare, Set, Show, Statement, StatementKind, Walk, WhatIf, With,
};

use crate::duckdb_settings;
use crate::error::{Error, Result};
use crate::sql::names;
use crate::sql::option_lists::{list_of, written_in};
use crate::sql::transactions::TransactionCommand;

/// A statement as a session executes it. What is planned is not here, but in the statement's [`super::written::Written`].
#[derive(Debug, Clone)]
pub(crate) enum Command {
    /// A query that changes nothing.
    Query,
    /// INSERT, UPDATE, DELETE or MERGE.
    Write,
    /// SELECT … FOR UPDATE.
    LockRows,
    /// A statement that has others which write within its WITH.
    WithWrites,
    /// A statement that creates, changes, drops or describes something, or empties a table.
    Define(Box<StatementKind>),
    Explain(Explanation),
    Prepare(Box<Prepare>),
    Execute(Box<Execute>),
    /// One prepared statement, or all.
    Deallocate(Option<String>),
    ShowCreate {
        name: String,
    },
    CopyFrom(CopyFrom),
    CopyTo(CopyTo),
    Vacuum(Option<String>),
    /// BACKUP TO 'folder'.
    Backup {
        folder: String,
    },
    /// RESTORE FROM 'folder'.
    Restore {
        folder: String,
    },
    /// ATTACH 'folder' AS name (READ_ONLY).
    Attach {
        folder: String,
        name: Option<String>,
        if_not_exists: bool,
    },
    /// DETACH name.
    Detach {
        name: String,
        if_exists: bool,
    },
    CreateSecret(SecretRequest),
    /// DROP SECRET name.
    DropSecret {
        name: String,
        if_exists: bool,
    },
    /// EXPORT DATABASE 'folder' (options).
    ExportDatabase {
        folder: String,
        options: OptionList,
    },
    /// IMPORT DATABASE 'folder'.
    ImportDatabase {
        folder: String,
    },
    /// ANALYZE, for which there is nothing to do.
    Analyze(Option<String>),
    Check(Option<String>),
    Set {
        name: String,
        value: String,
        /// Whether it holds until the end of the transaction only.
        local: bool,
    },
    /// SET VARIABLE, with a query of one value.
    SetVariable {
        name: String,
    },
    ResetVariable {
        name: String,
    },
    Reset {
        name: String,
    },
    Show {
        name: String,
    },
    /// USE of a schema, of which only ours is possible.
    Use,
    Calibrate,
    Transaction(TransactionCommand),
    Advise(AdviseRequest),
    WhatIf(WhatIfRequest),
}

/// `EXPLAIN [ANALYZE] [VERBOSE] [FORMAT format] statement`
#[derive(Debug, Clone)]
pub(crate) struct Explanation {
    pub analyze: bool,
    pub verbose: bool,
    /// The format, in lower case.
    pub format: Option<String>,
    pub what: Explained,
}

/// A statement that is explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Explained {
    Query,
    Write,
    /// CREATE TABLE AS.
    Table,
}

/// `ADVISE [table] [COPIES n] [BUDGET 'size']`; without a name, all tables.
#[derive(Debug, Clone)]
pub(crate) struct AdviseRequest {
    pub table: Option<String>,
    /// The maximum number of copies of a table, including the table.
    pub copies: Option<usize>,
    /// The maximum bytes of a table with its copies.
    pub budget: Option<usize>,
}

/// `WHATIF table DESIGN (options) FOR query`.
#[derive(Debug, Clone)]
pub(crate) struct WhatIfRequest {
    pub table: String,
    pub options: OptionList,
}

/// `CREATE [OR REPLACE] SECRET [IF NOT EXISTS] [name] (options)`
#[derive(Clone)]
pub(crate) struct SecretRequest {
    pub name: Option<String>,
    pub or_replace: bool,
    pub if_not_exists: bool,
    pub options: OptionList,
}

impl fmt::Debug for SecretRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretRequest").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Options in parentheses, in the order written. An option without a value has the value `true`.
pub(crate) type OptionList = Vec<(String, String)>;

/// `COPY table (columns) FROM 'path' (options)`
#[derive(Debug, Clone)]
pub(crate) struct CopyFrom {
    pub table: String,
    pub columns: Vec<String>,
    pub path: String,
    pub options: OptionList,
}

/// `COPY … TO 'path' (options)`
#[derive(Debug, Clone)]
pub(crate) struct CopyTo {
    pub path: CopyPath,
    pub options: OptionList,
    /// The value of KV_METADATA as SQL, which is computed.
    pub metadata: Option<String>,
    /// Whether ORDER_BY says how the rows of a file are ordered.
    pub is_ordered: bool,
}

/// The name of the file of COPY … TO.
#[derive(Debug, Clone)]
pub(crate) enum CopyPath {
    Written(String),
    /// The SQL of a value.
    Computed(String),
}

/// The option of COPY … TO with texts that a Parquet file has under keys.
const KV_METADATA: &str = "kv_metadata";

/// The formats of EXPLAIN.
const FORMATS: [&str; 5] = ["tree", "text", "json", "traditional", "graphviz"];

impl Command {
    /// That of a statement, whose text is given.
    ///
    /// # Errors
    /// A name, an option or a value is none.
    pub fn of(statement: &Statement, text: &str) -> Result<Command> {
        use StatementKind::*;
        Ok(match &statement.kind {
            Query(query) if query.with.as_ref().is_some_and(With::writes) => Command::WithWrites,
            Write(write) if write.with().is_some_and(With::writes) => Command::WithWrites,
            Query(_) | Describe(_) | Summarize(_) => Command::Query,
            Write(_) => Command::Write,
            LockRows(_) => Command::LockRows,
            CopyFrom(copy) => Command::CopyFrom(copy_from(copy, text)?),
            CopyTo(copy) => Command::CopyTo(copy_to(copy, text)?),
            CreateTable(_)
            | AlterTable(_)
            | CreateView(_)
            | RenameView(_)
            | CreateMaterializedView(_)
            | RefreshView(_)
            | CreateIndex(_)
            | CreateSequence(_)
            | CreateMacro(_)
            | CreateSchema(_)
            | CreateType(_)
            | Drop(_)
            | Comment(_)
            | Truncate(_) => Command::Define(Box::new(statement.kind.clone())),
            Explain(explain) => Command::Explain(explanation(explain)?),
            Prepare(prepare) => Command::Prepare(Box::new(prepare.clone())),
            Execute(execute) => Command::Execute(Box::new(execute.clone())),
            Deallocate(name) => Command::Deallocate(name.as_ref().map(|name| name.text.clone())),
            DeclareCursor(_) | FetchCursor(_) | CloseCursor(_) => return Err(client_only("a cursor")),
            DiscardAll | DiscardTemporary => return Err(client_only("DISCARD")),
            kind => match of_transaction(kind) {
                Some(command) => Command::Transaction(command),
                None => of_session(kind, text)?,
            },
        })
    }
}

/// A statement about the transaction of its session.
fn of_transaction(kind: &StatementKind) -> Option<TransactionCommand> {
    Some(match kind {
        StatementKind::Begin(modes) => TransactionCommand::Begin((*modes).into()),
        StatementKind::SetTransaction(modes) => TransactionCommand::Set((*modes).into()),
        StatementKind::Commit => TransactionCommand::Commit,
        StatementKind::Rollback => TransactionCommand::Rollback,
        StatementKind::Savepoint(name) => TransactionCommand::Savepoint(name.text.clone()),
        StatementKind::Release(name) => TransactionCommand::Release(name.text.clone()),
        StatementKind::RollbackTo(name) => TransactionCommand::RollbackTo(name.text.clone()),
        _ => return None,
    })
}

/// A statement about settings, or about the database as a whole.
fn of_session(kind: &StatementKind, text: &str) -> Result<Command> {
    use StatementKind::*;
    Ok(match kind {
        Set(set) => of_set(set, text),
        SetSessionModes(_) => {
            return Err(Error::unsupported("SET SESSION CHARACTERISTICS is not available here")
                .with_hint("BEGIN takes the modes of its transaction: BEGIN READ ONLY"));
        }
        Reset(name) => Command::Reset { name: name.as_ref().map_or_else(|| "all".to_owned(), setting) },
        SetVariable { name, .. } => Command::SetVariable { name: name.text.clone() },
        ResetVariable(name) => Command::ResetVariable { name: name.text.clone() },
        Show(self::Show::Setting(name)) => Command::Show { name: setting(name) },
        Show(self::Show::All) => Command::Show { name: "all".to_owned() },
        Show(self::Show::Create { name, .. }) => Command::ShowCreate { name: names::kept_name(name)? },
        Show(_) => Command::Query,
        Pragma(pragma) => match pragma.name.text.as_str() {
            "show_tables" | "table_info" | "version" => Command::Query,
            name if pragma.arguments.is_empty() && duckdb_settings::effect(name, None).is_some() => {
                Command::Reset { name: name.to_owned() }
            }
            other => {
                return Err(Error::unsupported(format!("PRAGMA {other} is not available"))
                    .with_hint("SET name = value changes a setting, SHOW name shows it"));
            }
        },
        Use(schema) => use_schema(schema)?,
        Vacuum(table) => Command::Vacuum(optional(table.as_ref())?),
        Analyze(table) => Command::Analyze(optional(table.as_ref().map(|(table, _)| table))?),
        Check(table) => Command::Check(optional(table.as_ref())?),
        Calibrate => Command::Calibrate,
        Advise(advise) => Command::Advise(of_advise(advise)?),
        WhatIf(what_if) => Command::WhatIf(of_what_if(what_if, text)?),
        Attach(attach) => of_attach(attach, text)?,
        Detach { name, if_exists } => Command::Detach { name: name.text.clone(), if_exists: *if_exists },
        CreateSecret(create) => Command::CreateSecret(SecretRequest {
            name: create.name.as_ref().map(|name| name.text.clone()),
            or_replace: create.or_replace,
            if_not_exists: create.if_not_exists,
            options: list_of(&create.options, text),
        }),
        DropSecret { name, if_exists } => Command::DropSecret { name: name.text.clone(), if_exists: *if_exists },
        BackupTo(folder) => Command::Backup { folder: folder.value.clone() },
        RestoreFrom(folder) => Command::Restore { folder: folder.value.clone() },
        ExportDatabase { folder, options: given } => {
            Command::ExportDatabase { folder: folder.value.clone(), options: list_of(given, text) }
        }
        ImportDatabase(folder) => Command::ImportDatabase { folder: folder.value.clone() },
        _ => return Err(Error::unsupported("this statement is not available")),
    })
}

/// What only clients of PostgreSQL's protocol can do.
fn client_only(what: &str) -> Error {
    Error::unsupported(format!("{what} is not available here"))
        .with_hint("clients of PostgreSQL's protocol have it: freestone serve")
}

fn optional(name: Option<&ObjectName>) -> Result<Option<String>> {
    name.map(names::kept_name).transpose()
}

fn copy_to(copy: &WrittenCopyTo, text: &str) -> Result<CopyTo> {
    check_options(&copy.options)?;
    let path = match &copy.target {
        CopyTarget::Client => return Err(client_only("COPY … TO STDOUT")),
        CopyTarget::File(path) => CopyPath::Written(path.clone()),
        CopyTarget::Computed(path) => CopyPath::Computed(computed("the name of the file", path)?),
    };
    if copy.order.iter().any(|key| matches!(key.value.kind, ExprKind::Literal(_) | ExprKind::Parameter(_))) {
        return Err(Error::invalid("ORDER_BY takes columns and expressions of them, and no positions"));
    }
    let is_metadata = |option: &&OptionItem| option.name.text.eq_ignore_ascii_case(KV_METADATA);
    let given: Vec<&OptionItem> = copy.options.iter().filter(is_metadata).collect();
    let metadata = match given.as_slice() {
        [] => None,
        [OptionItem { value: Some(value), .. }] => Some(computed("KV_METADATA", value)?),
        [_] => return Err(Error::invalid("KV_METADATA needs keys and values, as in KV_METADATA {key: 'value'}")),
        _ => return Err(Error::invalid("the option KV_METADATA is given twice")),
    };
    let others: Vec<OptionItem> = copy.options.iter().filter(|option| !is_metadata(option)).cloned().collect();
    Ok(CopyTo { path, options: list_of(&others, text), metadata, is_ordered: !copy.order.is_empty() })
}

/// Refuses options whose value is NULL.
fn check_options(options: &[OptionItem]) -> Result<()> {
    let is_null = |option: &&OptionItem| {
        option.value.as_ref().is_some_and(|value| matches!(value.kind, ExprKind::Literal(Literal::Null)))
    };
    match options.iter().find(is_null) {
        Some(option) => Err(Error::invalid(format!("the option {} of COPY cannot be NULL", option.name.text))
            .with_hint("leave it out, or write a text in quotes")),
        None => Ok(()),
    }
}

/// The SQL of a value that a statement computes when it runs.
fn computed(what: &str, value: &Expr) -> Result<String> {
    let mut others = OtherParameters(false);
    others.expr(value);
    match others.0 {
        true => {
            let error = Error::unsupported(format!("{what} takes parameters with numbers only"));
            Err(error.with_hint("number the parameters of the statement, as in $1, or call getvariable('name')"))
        }
        false => Ok(value.to_string()),
    }
}

/// Whether parameters are counted or have names, which is not possible in a part of a statement.
struct OtherParameters(bool);

impl Walk for OtherParameters {
    fn expr(&mut self, expr: &Expr) {
        self.0 |= matches!(expr.kind, ExprKind::Parameter(Parameter::Next | Parameter::Name(_)));
        expr.walk(self);
    }
}

fn copy_from(copy: &WrittenCopyFrom, text: &str) -> Result<CopyFrom> {
    check_options(&copy.options)?;
    Ok(CopyFrom {
        table: names::kept_name(&copy.table)?,
        columns: copy.columns.iter().map(|column| column.text.clone()).collect(),
        path: copy.path.clone().ok_or_else(|| client_only("COPY … FROM STDIN"))?,
        options: list_of(&copy.options, text),
    })
}

fn explanation(explain: &Explain) -> Result<Explanation> {
    let what = match &explain.statement.kind {
        StatementKind::Query(_) => Explained::Query,
        StatementKind::Write(_) => Explained::Write,
        _ => Explained::Table,
    };
    let format = explain.format.as_ref().map(|format| format.text.to_lowercase());
    if let Some(other) = format.as_deref().filter(|format| !FORMATS.contains(format)) {
        return Err(Error::unsupported(format!("options of EXPLAIN: FORMAT {other} is not available"))
            .with_hint("the form is EXPLAIN [(ANALYZE, VERBOSE, FORMAT tree|json|traditional)] query"));
    }
    Ok(Explanation { analyze: explain.analyze, verbose: explain.verbose, format, what })
}

/// The dotted name of a setting.
fn setting(name: &ObjectName) -> String {
    let parts: Vec<String> = name.parts.iter().map(|part| part.text.to_lowercase()).collect();
    parts.join(".")
}

fn of_set(set: &Set, text: &str) -> Command {
    let value = match set.values.as_slice() {
        [] => "DEFAULT".to_owned(),
        [value] => written_in(text, value),
        values => values.iter().map(|value| value.span.of(text).trim()).collect::<Vec<_>>().join(","),
    };
    Command::Set { name: setting(&set.name), value, local: set.local }
}

/// `USE schema`: only our schema is allowed.
fn use_schema(schema: &ObjectName) -> Result<Command> {
    match schema.parts.last().map_or("", |schema| schema.text.as_str()) {
        "public" | "main" | "freestone" => Ok(Command::Use),
        other => Err(Error::unsupported(format!("USE {other}: names without a schema are those of public"))
            .with_hint(format!("write {other} before the names of its tables"))),
    }
}

fn of_advise(advise: &Advise) -> Result<AdviseRequest> {
    let none = || Error::syntax("ADVISE needs a number of copies from 1 on");
    let copies = advise.copies.map(|count| usize::try_from(count).ok().filter(|count| *count > 0).ok_or_else(none));
    let budget = advise.budget.as_ref().map(|budget| crate::options::parse_size(&budget.value));
    Ok(AdviseRequest {
        table: optional(advise.table.as_ref())?,
        copies: copies.transpose()?,
        budget: budget.transpose()?,
    })
}

fn of_what_if(what_if: &WhatIf, text: &str) -> Result<WhatIfRequest> {
    Ok(WhatIfRequest { table: names::kept_name(&what_if.table)?, options: list_of(&what_if.options, text) })
}

fn of_attach(attach: &Attach, text: &str) -> Result<Command> {
    const FORM: &str = "ATTACH 'folder' AS name (READ_ONLY)";
    let mut reads_only = false;
    for (option, value) in list_of(&attach.options, text) {
        match (option.as_str(), value.to_ascii_lowercase().as_str()) {
            ("read_only" | "readonly", "true") => reads_only = true,
            ("type", "freestone") | ("read_only" | "readonly", "false") => {}
            ("type", other) => {
                return Err(Error::unsupported(format!("databases of type {other} cannot be attached"))
                    .with_hint("export them to Parquet files, which are read by name: FROM 'file.parquet'"));
            }
            (other, _) => {
                return Err(Error::invalid(format!("unknown option {other} of ATTACH")).with_hint(FORM));
            }
        }
    }
    if !reads_only {
        return Err(Error::unsupported("other databases are attached for reading only").with_hint(FORM));
    }
    let name = attach.name.as_ref().map(|name| name.text.clone());
    Ok(Command::Attach { folder: attach.folder.value.clone(), name, if_not_exists: attach.if_not_exists })
}
