//! `EXPORT DATABASE` and `IMPORT DATABASE`: a folder with the definitions of a database as SQL and a file per table, as in
//! DuckDB. `schema.sql` creates everything, `load.sql` has a COPY per table, and `after.sql` is what follows the rows.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use futures::StreamExt;
use futures::future::BoxFuture;

use super::Session;
use crate::context::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::exec::dump::{self, Dump, DumpedTable};
use crate::export::{self, Export};
use crate::session::copying::CopyRequest;
use crate::sql::command::{Command, OptionList};
use crate::sql::parameters::Parameters;
use crate::sql::statement::{Statement, literal, quote};

const SCHEMA: &str = "schema.sql";
const LOAD: &str = "load.sql";
const AFTER: &str = "after.sql";

/// The options of COPY … TO that say how a file is read, too.
const OF_READING: [&str; 11] = [
    "header",
    "delimiter",
    "delim",
    "sep",
    "quote",
    "escape",
    "null",
    "nullstr",
    "dateformat",
    "timestampformat",
    "comment",
];

/// The options of COPY … TO that a file per table cannot have.
const REFUSED: [&str; 12] = [
    "partition_by",
    "per_thread_output",
    "file_size_bytes",
    "row_groups_per_file",
    "return_files",
    "write_empty_file",
    "write_partition_columns",
    "filename_pattern",
    "file_extension",
    "overwrite",
    "overwrite_or_ignore",
    "append",
];

impl Session {
    /// Writes the definitions and the rows of one snapshot.
    pub(super) async fn export_database(&self, folder: &str, options: OptionList) -> Result<Outcome> {
        self.access.check_files()?;
        let scope = self.scope()?;
        let dump = dump::dump(&scope.snapshot);
        let files = Files::new(folder, options)?;
        files.check()?;
        let path = folder.to_owned();
        self.blocking(move |_| prepare(Path::new(&path))).await?;
        for table in &dump.tables {
            let columns: Vec<String> = table.columns.iter().map(|(name, _)| quote(name)).collect();
            let query = format!("SELECT {} FROM {}", columns.join(", "), quote(&table.name));
            let request = CopyRequest::file(files.path(table), files.options(table));
            self.copy_in(scope.clone(), request, Parameters::of_text(&query))
                .await
                .map_err(|error| error.at(&format!("table {}", table.sql_name)))?;
        }
        let load: String = dump.tables.iter().map(|table| files.load(table)).collect();
        let path = folder.to_owned();
        self.blocking(move |_| write_scripts(Path::new(&path), &dump, &load)).await?;
        Ok(Outcome::Done { verb: "EXPORT DATABASE" })
    }

    /// Executes the scripts of a folder in one transaction.
    pub(super) async fn import_database(&self, folder: &str) -> Result<Outcome> {
        self.access.check_files()?;
        self.check_write()?;
        self.check_outside("IMPORT DATABASE")?;
        let path = folder.to_owned();
        let scripts = self.blocking(move |_| read_scripts(Path::new(&path))).await?;
        self.execute_text("BEGIN").await?;
        // Also if the caller gives up in between.
        let open = OpenImport(self);
        for (name, text) in &scripts {
            for statement in self.parse(text)? {
                let place = format!("{folder}/{name}, line {}", statement.line);
                let done = self.import_statement(folder, &statement).await;
                done.map_err(|error| with_import_hint(error.at(&place)))?;
            }
        }
        self.execute_text("COMMIT").await?;
        drop(open);
        Ok(Outcome::Done { verb: "IMPORT DATABASE" })
    }

    /// Executes a statement of a script. Files of COPY are those in the folder, wherever it was when it was written.
    async fn import_statement(&self, folder: &str, statement: &Statement) -> Result<()> {
        if statement.marks_transaction() || statement.ends_transaction() {
            return Err(Error::invalid("IMPORT DATABASE is one transaction, and its scripts begin and end none"));
        }
        if let Command::CopyFrom(copy) = statement.command()? {
            let file = Path::new(&copy.path).file_name().map(Path::new).unwrap_or(Path::new(""));
            let path = Path::new(folder).join(file).to_string_lossy().into_owned();
            return self.load_file(&copy.table, copy.columns, &path, copy.options).await.map(drop);
        }
        self.run_to_end(statement).await
    }

    async fn execute_text(&self, sql: &str) -> Result<()> {
        for statement in self.parse(sql)? {
            self.run_to_end(&statement).await?;
        }
        Ok(())
    }

    /// Boxed, because a statement executes others here.
    fn run_to_end<'a>(&'a self, statement: &'a Statement) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if let Outcome::Rows { mut stream, .. } = self.execute(statement).await? {
                while let Some(batch) = stream.next().await {
                    batch?;
                }
            }
            Ok(())
        })
    }
}

/// Rolls back what was imported, unless it was committed.
struct OpenImport<'a>(&'a Session);

impl Drop for OpenImport<'_> {
    fn drop(&mut self) {
        self.0.end_transaction();
    }
}

fn with_import_hint(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Exists => {
            error.with_hint("import into an empty database, or DROP what has these names; nothing was imported")
        }
        _ => error,
    }
}

/// The files of tables: where they are, and how they are written and read.
struct Files<'a> {
    folder: &'a str,
    format: String,
    options: OptionList,
}

impl<'a> Files<'a> {
    fn new(folder: &'a str, mut options: OptionList) -> Result<Files<'a>> {
        if let Some((name, _)) = options.iter().find(|(name, _)| is_one(&REFUSED, name)) {
            return Err(Error::invalid(format!("{name} is not an option of EXPORT DATABASE"))
                .with_hint("each table is one file; options are FORMAT and those of how a file is written"));
        }
        let given = options.iter().position(|(name, _)| name.eq_ignore_ascii_case("format"));
        let format = given.map_or("parquet".into(), |at| options.remove(at).1.to_ascii_lowercase());
        if format == "csv" && !options.iter().any(|(name, _)| name.eq_ignore_ascii_case("header")) {
            options.push(("header".into(), "true".into()));
        }
        Ok(Files { folder, format, options })
    }

    /// Refuses options that no file can have, before anything is written.
    fn check(&self) -> Result<()> {
        let options = self.options_of(&self.format);
        Export::new(&format!("{}/x.{}", self.folder, self.format), &options, 1, 1, false).map(drop)
    }

    /// The format of a table's file. Parquet does not have all types, and Arrow does.
    fn format(&self, table: &DumpedTable) -> &str {
        let is_foreign = table.columns.iter().any(|(_, data_type)| export::is_foreign(data_type));
        if self.format == "parquet" && is_foreign { "arrow" } else { &self.format }
    }

    fn path(&self, table: &DumpedTable) -> String {
        format!("{}/{}.{}", self.folder.trim_end_matches('/'), table.file, self.format(table))
    }

    fn options(&self, table: &DumpedTable) -> OptionList {
        self.options_of(self.format(table))
    }

    /// The options of a file of a format. Those of Parquet say nothing of Arrow.
    fn options_of(&self, format: &str) -> OptionList {
        let own = self.options.iter().filter(|_| format == self.format).cloned();
        std::iter::once(("format".to_owned(), format.to_owned())).chain(own).collect()
    }

    /// The COPY that reads a table's file.
    fn load(&self, table: &DumpedTable) -> String {
        let columns: Vec<String> = table.columns.iter().map(|(name, _)| quote(name)).collect();
        let options = self.options(table).into_iter().filter(|(name, _)| name == "format" || is_one(&OF_READING, name));
        let options: Vec<String> =
            options.map(|(name, value)| format!("{} {}", name.to_ascii_uppercase(), literal(&value))).collect();
        let (path, columns, options) = (literal(&self.path(table)), columns.join(", "), options.join(", "));
        format!("COPY {} ({columns}) FROM {path} ({options});\n", table.sql_name)
    }
}

fn is_one(names: &[&str], name: &str) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Makes the folder, or checks that it is empty or has an earlier export, which is no longer complete then.
fn prepare(folder: &Path) -> Result<()> {
    let failed = |error: io::Error| Error::new(ErrorKind::Io, format!("cannot write to {}: {error}", folder.display()));
    match fs::create_dir(folder) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error).with_hint("the folder above must exist")),
    }
    let is_empty = fs::read_dir(folder).map_err(failed)?.next().is_none();
    if !is_empty && !folder.join(SCHEMA).exists() {
        return Err(Error::new(ErrorKind::Exists, format!("{} has other files", folder.display()))
            .with_hint("name a new or empty folder, or one with an earlier export"));
    }
    for name in [LOAD, AFTER] {
        match fs::remove_file(folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    Ok(())
}

/// Writes the scripts. The folder is a complete export once `load.sql` is there.
fn write_scripts(folder: &Path, dump: &Dump, load: &str) -> Result<()> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        let written =
            File::create(&path).and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
        written.map_err(|error| Error::new(ErrorKind::Io, format!("cannot write {}: {error}", path.display())))
    };
    write(SCHEMA, &dump.schema)?;
    if !dump.after.is_empty() {
        write(AFTER, &dump.after)?;
    }
    write(LOAD, load)
}

/// The scripts in the order in which they run.
fn read_scripts(folder: &Path) -> Result<Vec<(&'static str, String)>> {
    let mut scripts = vec![];
    for name in [SCHEMA, LOAD, AFTER] {
        let path = folder.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => scripts.push((name, text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && name == AFTER => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::invalid(format!("{} is no exported database: it has no {name}", folder.display()))
                    .with_hint("name a folder that EXPORT DATABASE has written"));
            }
            Err(error) => return Err(Error::new(ErrorKind::Io, format!("cannot read {}: {error}", path.display()))),
        }
    }
    Ok(scripts)
}
