//! The tenants' databases: equal numbers of rows, from seeds of their own. They remain for further runs, and are
//! verified before each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use arrow::util::display::array_value_to_string;
use freestone_data::queries::SSB_SCHEMA;
use freestone_data::ssb;
use serde::{Deserialize, Serialize};

use super::child::{Place, Process};
use super::workload::{Asker, Endpoint};
use crate::Notify;
use crate::error::{LabError, Result};
use crate::experiments::quoted;

/// The time in which a database must be built.
const PATIENCE: Duration = Duration::from_secs(3600);
/// The bytes of a row of lineorder, and of its share of the dimensions, in memory: measured, rounded up.
const BYTES_PER_ROW: [(Encoding, f64); 2] = [(Encoding::Compressed, 32.0), (Encoding::Plain, 80.0)];
/// What a server and its queries take in addition to the data.
const SERVER_BYTES: u64 = 300 << 20;

/// How columns are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// As the engine chooses from a sample.
    Compressed,
    /// Values as they are, which move more bytes.
    Plain,
}

impl Encoding {
    pub const fn name(self) -> &'static str {
        match self {
            Encoding::Compressed => "compressed",
            Encoding::Plain => "plain",
        }
    }
}

/// Where databases and their data are, and how they are built.
#[derive(Debug, Clone)]
pub struct Library {
    /// The folder of all databases.
    pub folder: PathBuf,
    /// The program `freestone`.
    pub program: PathBuf,
    pub scale: f64,
}

/// A database, and the schemas of its tenants.
#[derive(Debug, Clone, PartialEq)]
pub struct Database {
    pub folder: PathBuf,
    /// The tenants by number, from 0. Several have schemas, one alone has none.
    pub tenants: Vec<usize>,
    pub is_shared: bool,
}

/// The file next to a database that says what it holds; it is written last.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Label {
    version: u32,
    scale: f64,
    seeds: Vec<u64>,
    encoding: Encoding,
}

const VERSION: u32 = 1;

/// The seed of a tenant's rows.
fn seed(tenant: usize) -> u64 {
    ssb::SEED + tenant as u64
}

/// The name of a tenant's schema in a shared database.
pub fn schema(tenant: usize) -> String {
    format!("tenant{}", tenant + 1)
}

/// The memory that a tenant needs.
pub fn tenant_bytes(scale: f64, encoding: Encoding) -> u64 {
    let per_row = BYTES_PER_ROW.iter().find(|(of, _)| *of == encoding).map_or(100.0, |(_, bytes)| *bytes);
    (scale * 6e6 * per_row) as u64 + SERVER_BYTES
}

/// The memory that is free now.
pub fn free_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map_or(u64::MAX, |kib| kib * 1024)
}

/// The number of tenants that fit into the free memory.
///
/// # Errors
/// Not even the asked number of tenants fits.
pub fn check_memory(asked: usize, scale: f64, encoding: Encoding, free: u64) -> Result<()> {
    let each = tenant_bytes(scale, encoding);
    let fit = (free * 9 / 10 / each) as usize;
    if asked <= fit {
        return Ok(());
    }
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let advice = if fit == 0 { "a smaller --scale".into() } else { format!("--tenants {fit} or a smaller --scale") };
    Err(LabError::Usage(format!(
        "{asked} tenants at scale {scale} need about {:.1} GiB of memory, and {:.1} GiB are free: {fit} fit; use {advice}",
        gib(each * asked as u64),
        gib(free)
    )))
}

impl Library {
    /// The database of one tenant, which is built if it does not exist.
    ///
    /// # Errors
    /// It cannot be built, or the one that exists is of another scale.
    pub fn of_tenant(&self, tenant: usize, encoding: Encoding, notify: Notify<'_>) -> Result<Database> {
        self.ready(&format!("{}-tenant{}", encoding.name(), tenant + 1), vec![tenant], false, encoding, notify)
    }

    /// The database of the first `tenants` tenants, each with a schema.
    ///
    /// # Errors
    /// As for [`Library::of_tenant`].
    pub fn shared(&self, tenants: usize, encoding: Encoding, notify: Notify<'_>) -> Result<Database> {
        self.ready(&format!("{}-shared{tenants}", encoding.name()), (0..tenants).collect(), true, encoding, notify)
    }

    fn ready(
        &self,
        name: &str,
        tenants: Vec<usize>,
        is_shared: bool,
        encoding: Encoding,
        notify: Notify<'_>,
    ) -> Result<Database> {
        let seeds = tenants.iter().map(|tenant| seed(*tenant)).collect();
        let label = Label { version: VERSION, scale: self.scale, seeds, encoding };
        let (folder, label_path) = (self.folder.join(name), self.folder.join(format!("{name}.json")));
        let database = Database { folder, tenants, is_shared };
        match fs::read(&label_path) {
            Ok(json) => {
                let found: Option<Label> = serde_json::from_slice(&json).ok();
                if found.as_ref() == Some(&label) && database.folder.is_dir() {
                    return Ok(database);
                }
                return Err(other(&database.folder, found.as_ref(), &label));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(LabError::file(&label_path)(error)),
        }
        notify(&format!("building {name}, scale {}", self.scale));
        self.build(&database, encoding)?;
        let json = serde_json::to_vec(&label);
        let json = json.map_err(|source| LabError::Result { path: label_path.clone(), source })?;
        fs::write(&label_path, json).map_err(LabError::file(&label_path))?;
        Ok(database)
    }

    /// Loads all tenants. What an interrupted build has left is removed first.
    fn build(&self, database: &Database, encoding: Encoding) -> Result<()> {
        match fs::remove_dir_all(&database.folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(LabError::file(&database.folder)(error));
            }
            _ => {}
        }
        fs::create_dir_all(&self.folder).map_err(LabError::file(&self.folder))?;
        let mut script = String::new();
        for &tenant in &database.tenants {
            let data = self.data(tenant)?;
            script += &load(&data, database.is_shared.then(|| schema(tenant)).as_deref(), encoding);
        }
        let file = database.folder.with_extension("sql");
        fs::write(&file, script).map_err(LabError::file(&file))?;
        let mut command = Command::new(&self.program);
        command.arg(&database.folder).arg("-f").arg(&file).args(["--format", "none"]);
        let built = Process::start("building a database", command, Place::default())?.finish(PATIENCE);
        let _ = fs::remove_file(&file);
        match built {
            Err(LabError::Broken(reason)) => Err(LabError::Usage(format!(
                "{reason}; check the free space of {}, or use a smaller --scale",
                self.folder.display()
            ))),
            built => built.map(|_| ()),
        }
    }

    /// Reads every byte of a database, so that damage is found before anything is measured.
    ///
    /// # Errors
    /// The database is damaged.
    pub fn check(&self, database: &Database) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.arg("check").arg(&database.folder);
        let checked = Process::start("freestone check", command, Place::default())?.finish(PATIENCE);
        match checked {
            Err(LabError::Broken(reason)) => Err(LabError::Usage(format!(
                "the database {} is damaged: {reason}; delete {}, and it is built again",
                database.folder.display(),
                database.folder.with_extension("json").display()
            ))),
            checked => checked.map(|_| ()),
        }
    }

    /// The folder of a tenant's Parquet files, which remain.
    fn data(&self, tenant: usize) -> Result<PathBuf> {
        let folder = self.folder.join(format!("data-seed{}", seed(tenant)));
        if ssb::tables().iter().any(|table| !folder.join(format!("{table}.parquet")).exists()) {
            super::interrupt::check()?;
            ssb::write_parquet(&folder, self.scale, seed(tenant))?;
        }
        Ok(folder)
    }
}

fn other(folder: &Path, found: Option<&Label>, expected: &Label) -> LabError {
    let found = match found {
        None => "of another version".into(),
        Some(found) if found.scale != expected.scale => format!("of scale {}, not {}", found.scale, expected.scale),
        Some(_) => "not the one that this run needs".into(),
    };
    let label = folder.with_extension("json");
    let (folder, label) = (folder.display(), label.display());
    LabError::Usage(format!("the database {folder} is {found}; delete {label}, and it is built again"))
}

/// The script that creates and loads one tenant's tables, all of them in memory while the database is open.
fn load(data: &Path, schema: Option<&str>, encoding: Encoding) -> String {
    let name = |table: &str| schema.map_or(table.to_owned(), |schema| format!("{schema}.{table}"));
    let mut ddl = SSB_SCHEMA.to_owned();
    let mut script = schema.map_or(String::new(), |schema| format!("CREATE SCHEMA {schema};\n"));
    for table in ssb::tables() {
        ddl = ddl.replace(&format!("CREATE TABLE {table} ("), &format!("CREATE TABLE {} (", name(table)));
        ddl = ddl.replace(&format!("REFERENCES {table} ("), &format!("REFERENCES {} (", name(table)));
    }
    script += &ddl;
    for table in ssb::tables() {
        let plain = match encoding {
            Encoding::Compressed => String::new(),
            Encoding::Plain => {
                let columns = ssb::schema(table).map_or(vec![], |schema| {
                    schema.fields().iter().map(|field| format!("{}: plain", field.name())).collect::<Vec<_>>()
                });
                format!(", encoding = '{}'", columns.join(", "))
            }
        };
        let (to, file) = (name(table), quoted(&data.join(format!("{table}.parquet"))));
        script += &format!("ALTER TABLE {to} SET DESIGN (preset = 'column', medium = 'memory'{plain});\n");
        script += &format!("COPY {to} FROM '{file}' (FORMAT parquet);\n");
    }
    script
}

/// What a tenant's tables hold: counts and sums that any lost, added or changed row would change.
///
/// # Errors
/// The tables cannot be read: the database is damaged.
pub fn rows_of(asker: &Asker, endpoint: &Endpoint, schema: Option<&str>) -> Result<Vec<String>> {
    let columns = [
        ("date", "sum(d_datekey), sum(d_year)"),
        ("part", "sum(p_partkey), sum(p_size)"),
        ("supplier", "sum(s_suppkey), max(s_name)"),
        ("customer", "sum(c_custkey), max(c_name)"),
        ("lineorder", "sum(lo_orderkey), sum(lo_revenue), sum(lo_custkey), sum(lo_partkey), sum(lo_discount)"),
    ];
    let of_table = |(table, sums): (&str, &str)| {
        let name = schema.map_or(table.to_owned(), |schema| format!("{schema}.{table}"));
        let batches = asker.ask(&format!("SELECT count(*), {sums} FROM {name}"));
        let batches = batches.map_err(|error| {
            LabError::Broken(format!("{}, table {name}: {error}; if it is damaged, delete it", endpoint.name))
        })?;
        let cells = batches.iter().flat_map(|batch| batch.columns());
        let cells: Result<Vec<String>, _> = cells.map(|column| array_value_to_string(column, 0)).collect();
        cells
            .map(|cells| format!("{table}: {}", cells.join(", ")))
            .map_err(|error| LabError::Answers(error.to_string()))
    };
    columns.into_iter().map(of_table).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenants_script_stays_in_its_schema() {
        let script = load(Path::new("/x y'z"), Some("tenant3"), Encoding::Plain);
        for line in script.lines().filter(|line| line.contains("CREATE TABLE") || line.contains("REFERENCES")) {
            assert!(line.contains("tenant3."), "{line}");
        }
        assert!(script.contains("COPY tenant3.date FROM '/x y''z/date.parquet'"), "{script}");
        assert!(script.contains("encoding = 'd_datekey: plain, "));
        let alone = load(Path::new("d"), None, Encoding::Compressed);
        assert!(!alone.contains("tenant") && !alone.contains("encoding"));
    }

    #[test]
    fn too_many_tenants_are_refused_with_the_number_that_fits() {
        let free = 4 * tenant_bytes(1.0, Encoding::Compressed);
        assert!(check_memory(3, 1.0, Encoding::Compressed, free).is_ok());
        let error = check_memory(9, 1.0, Encoding::Compressed, free).expect_err("too many").to_string();
        assert!(error.contains("9 tenants") && error.contains("--tenants 3"), "{error}");
        let error = check_memory(1, 1000.0, Encoding::Plain, free).expect_err("too large").to_string();
        assert!(error.contains("0 fit; use a smaller --scale"), "{error}");
    }

    #[test]
    fn databases_of_other_scales_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let library = Library { folder: folder.path().into(), program: "/nowhere".into(), scale: 0.5 };
        let label = Label { version: VERSION, scale: 2.0, seeds: vec![seed(0)], encoding: Encoding::Plain };
        let path = folder.path().join("plain-tenant1.json");
        fs::write(&path, serde_json::to_vec(&label).expect("JSON")).expect("written");
        fs::create_dir(folder.path().join("plain-tenant1")).expect("a folder");
        let refused =
            |library: &Library| library.of_tenant(0, Encoding::Plain, &|_| {}).expect_err("another scale").to_string();
        let error = refused(&library);
        assert!(error.contains("of scale 2, not 0.5") && error.contains("delete"), "{error}");
        assert!(library_of(&library, 2.0).of_tenant(0, Encoding::Plain, &|_| {}).is_ok());
        fs::write(&path, "{}").expect("written");
        assert!(refused(&library).contains("another version"));
    }

    fn library_of(library: &Library, scale: f64) -> Library {
        Library { scale, ..library.clone() }
    }
}
