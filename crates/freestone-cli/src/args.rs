//! The options of the command line and their help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use freestone::{DiskCache, Emulation};
use freestone_cluster::Hosts;
use freestone_server::{ByteCodec, Preference, Role};

use crate::output::Format;

pub const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("FREESTONE_TARGET"),
    ", ",
    env!("FREESTONE_PROFILE"),
    ")\nDataFusion ",
    env!("FREESTONE_DATAFUSION_VERSION"),
    ", Arrow ",
    env!("FREESTONE_ARROW_VERSION"),
);

const EXAMPLES: &str = "\
Examples:
  freestone                                   a shell in memory
  freestone sales                             a shell on the database folder `sales`
  freestone freestone://ann@localhost:5577    a shell on a server; set FREESTONE_PASSWORD, or enter it
  freestone -c \"SELECT count(*) FROM 'orders.parquet'\"
  freestone sales -f load.sql --timing        runs a script until its first error
  freestone sales -c 'SELECT * FROM t' --output t.parquet
  echo 'SELECT 1;' | freestone --format csv   statements from standard input
  freestone ui sales                          the console in the browser
  freestone check sales                       verifies a database
  freestone serve sales --pg 5432             serves it to psql, BI tools and drivers

Results go to standard output, everything else to standard error.
Exit status: 0; 1 when a statement failed; 2 for wrong usage.
A database whose name is also a command is reached as ./NAME.";

/// An embedded analytical SQL database in which each table's physical layout can be set, compared and changed.
#[derive(Debug, Parser)]
#[command(name = "freestone", version, long_version = LONG_VERSION, after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,

    /// The database folder, which is created if it does not exist, or a server, freestone://user@host:port. Without it, or
    /// with :memory:, the database is in memory
    pub db: Option<PathBuf>,

    /// Runs these statements. Can be repeated
    #[arg(short, long = "command", value_name = "SQL", allow_hyphen_values = true)]
    pub command_text: Vec<String>,

    /// Runs the statements of a file (- is standard input). Can be repeated
    #[arg(short, long, value_name = "FILE")]
    pub file: Vec<PathBuf>,

    #[command(flatten)]
    pub output: OutputArgs,

    #[command(flatten)]
    pub engine: EngineArgs,
}

#[derive(Debug, Args)]
pub struct OutputArgs {
    /// The format of results [default: table; with --output, as the name of the file says, such as x.csv or x.parquet]
    #[arg(long, value_enum)]
    pub format: Option<Format>,

    /// Writes results to a file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Prints the time of each statement on standard error
    #[arg(long)]
    pub timing: bool,
}

#[derive(Debug, Clone, Default, Args)]
pub struct CacheArgs {
    /// Keeps pages of a database in a store in a folder of this machine, which one process uses at a time
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,

    /// The most bytes of these pages [default: 10GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "cache")]
    pub cache_size: Option<usize>,
}

impl CacheArgs {
    /// The cache, if there is one.
    pub fn disk_cache(&self) -> Option<DiskCache> {
        let bytes = self.cache_size.map_or(DiskCache::DEFAULT_BYTES, |bytes| bytes as u64);
        self.cache.clone().map(|folder| DiskCache { folder, bytes })
    }
}

#[derive(Debug, Clone, Args)]
pub struct EngineArgs {
    /// The memory for queries and caches, such as 2GB or 512MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory_limit: Option<usize>,

    /// The number of threads for queries [default: one per core]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,

    /// Allows no changes. The database must exist
    #[arg(long)]
    pub read_only: bool,

    /// Keeps tables with medium = 'pmem' in an ordinary file where there is no persistent memory. They survive the end of
    /// the process, but no power loss. emulated, or emulated:300ns to add that time to each line of 64 bytes that is read
    /// or flushed (emulated:300ns,100ns: 300 if read, 100 if flushed)
    #[arg(long, value_name = "MODE")]
    pub pmem: Option<Emulation>,

    /// The most bytes of the tables with medium = 'pmem' [default: 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub pmem_size: Option<usize>,

    /// The permissions that new files and folders of the database do not have, in octal digits as for umask: 027 lets the
    /// group read [default: 077]
    #[arg(long, value_name = "MODE", value_parser = parse_umask)]
    pub umask: Option<u32>,

    #[command(flatten)]
    pub cache: CacheArgs,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Shows the main functions on generated data, in less than two minutes
    Demo(DemoArgs),
    /// Verifies every checksum and invariant of a database
    Check(CheckArgs),
    /// Rewrites a database of an earlier format version in the present one
    #[command(after_help = UPGRADE_HELP)]
    Upgrade {
        /// The database folder
        db: PathBuf,
    },
    /// Measures this machine, so that the time of scans can be predicted
    Calibrate(CalibrateArgs),
    /// Recommends designs for the tables of a database, based on the queries that ran
    Advise(AdviseArgs),
    /// Opens the console in the browser: SQL, plans, and how tables are stored
    Ui(UiArgs),
    /// Serves a database to clients of Freestone, PostgreSQL and Arrow Flight SQL, and to browsers
    Serve(Box<ServeArgs>),
    /// Runs parts of the queries of servers, on a database in a store
    Worker(Box<WorkerArgs>),
    /// Starts a server and its workers on this machine
    Cluster(ClusterArgs),
    /// Adds, removes and lists the users of a server
    User(UserArgs),
    /// Prints the completions of this command line for a shell
    #[command(after_help = COMPLETIONS_HELP)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Writes the manual pages, which packages contain
    #[command(hide = true)]
    ManPages {
        /// The folder, which must exist
        folder: PathBuf,
    },
    /// Checks whether an object store can hold a database
    Store(StoreArgs),
}

const UPGRADE_HELP: &str = "\
A database of an earlier format version that this program reads can be read without this command, and written after it. Only
the commit log is rewritten; files with rows stay as they are. No other program may write the database meanwhile. After a crash
it has the old version or the new one. A version that this program does not read is an error that says what to do, and the
database stays as it is.";

const COMPLETIONS_HELP: &str = "\
Examples:
  source <(freestone completions bash)
  freestone completions zsh > ~/.zfunc/_freestone
  freestone completions fish > ~/.config/fish/completions/freestone.fish";

#[derive(Debug, Args)]
pub struct StoreArgs {
    #[command(subcommand)]
    pub command: StoreCommand,
}

#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Lets many threads create the same objects at the same time: one of each must succeed. What is created is removed
    /// again
    #[command(after_help = STORE_CHECK_HELP)]
    Check {
        /// A place in the store: s3://bucket/path, gs://bucket/path, az://container/path or file:///folder
        url: String,

        /// The number of objects [default: 200]
        #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
        rounds: Option<usize>,
    },
}

const STORE_CHECK_HELP: &str = "\
Examples:
  freestone store check s3://bucket/path
  freestone store check s3://bucket/path --rounds 5000

Credentials, region and endpoint come from the environment, such as AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_REGION, AWS_ENDPOINT and AWS_ALLOW_HTTP for S3.

A store that checks first and writes later may let two attempts succeed, but seldom: more rounds find that out.

Exit status: 0 if the store is fit; 1 if it is not, or cannot be reached, with the reason.";

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// The folder for the database and the report
    #[arg(long, value_name = "DIR", default_value = "freestone-demo")]
    pub output: PathBuf,

    /// The scale factor of the synthetic data; 1 has 6 million order lines
    #[arg(long, default_value_t = 0.1, value_parser = parse_scale)]
    pub scale: f64,
}

const CHECK_HELP: &str = "\
Examples:
  freestone check sales
  freestone check sales --repair

--repair makes a damaged commit log usable again. It keeps the commits before the damage, saves the rest in a
file next to the log, and prints which commits, tables and rows are lost. Segments are not changed. Those that are
missing or unreadable are listed, so that they can be restored from a backup.

Exit status: 0 if the database has no damage, or was repaired; 1 if it has. Then file and page are printed.";

#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
pub struct CheckArgs {
    /// The database folder
    pub db: PathBuf,

    /// Repairs the commit log first. Deletes nothing
    #[arg(long, conflicts_with = "read_only")]
    pub repair: bool,

    #[command(flatten)]
    pub engine: EngineArgs,
}

const UI_HELP: &str = "\
Examples:
  freestone ui                        the console on a database in memory
  freestone ui sales                  looks at a database, also while another process writes it
  freestone ui sales --write          changes it, too
  freestone ui sales --no-open        prints the address; a browser of this machine opens it

The server listens on a free port of this machine. Its address has a code with which one browser logs in. After that, a new
address for another browser is printed. Ctrl-C and SIGTERM end it.";

#[derive(Debug, Args)]
#[command(after_help = UI_HELP)]
pub struct UiArgs {
    /// The database folder. Without it, or with :memory:, the database is in memory and can be changed
    pub db: Option<PathBuf>,

    /// Listens on this port of the loopback interface (0: any free one) [default: the same one for the same database]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,

    /// Prints the address and opens no browser
    #[arg(long)]
    pub no_open: bool,

    /// Allows changes; a database that does not exist is created
    #[arg(long, conflicts_with = "read_only")]
    pub write: bool,

    #[command(flatten)]
    pub engine: EngineArgs,
}

const SERVE_HELP: &str = "\
Examples:
  freestone serve sales
  freestone serve sales --listen 5577 --pg 5432
  freestone serve sales --http 8080 --users users
  freestone serve sales --pg 127.0.0.1:5432 --flight 127.0.0.1:31337 --users users
  freestone serve sales --pg 0.0.0.0:5432 --users users --tls-cert cert.pem --tls-key key.pem

Without --users there is one user, `freestone`, with a new password that is printed on standard error.
When the server accepts connections, it prints one address per line: `listening: postgres://127.0.0.1:5432`.
SIGTERM and Ctrl-C stop it. Running statements have ten seconds to finish.";

#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub struct ServeArgs {
    /// The database folder, which is created if it does not exist. Without it, or with :memory:, the database is in memory
    pub db: Option<PathBuf>,

    /// Listens for Freestone's own clients: an address, a port on the loopback interface (0: a free one), or unix:/path
    /// [default if no protocol is set: 127.0.0.1:5577]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,

    /// Listens for PostgreSQL's protocol: an address, or a port on the loopback interface (0: a free one)
    #[arg(long, value_name = "ADDRESS")]
    pub pg: Option<String>,

    /// Listens for Arrow Flight SQL: an address, or a port on the loopback interface (0: a free one)
    #[arg(long, value_name = "ADDRESS")]
    pub flight: Option<String>,

    /// Listens for browsers over HTTP, or HTTPS with a certificate, and serves the console and /metrics: an address, or a port on
    /// the loopback interface (0: a free one)
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<String>,

    /// Serves metrics for Prometheus alone over HTTP, on a loopback address
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,

    /// The file of users that `freestone user add` writes
    #[arg(long, value_name = "FILE")]
    pub users: Option<PathBuf>,

    /// Requires no password and gives all rights. Only on loopback addresses
    #[arg(long)]
    pub no_auth: bool,

    /// The TLS certificate with its chain, in PEM format
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// The key of the certificate, in PEM format
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// The maximum number of connections [default: 1000]
    #[arg(long, value_name = "N")]
    pub max_connections: Option<usize>,

    /// The time limit for logging in [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub login_timeout: Option<std::time::Duration>,

    /// The time limit of a statement, such as 30s, 5min or 500ms
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub statement_timeout: Option<std::time::Duration>,

    /// The time after which an idle connection is closed
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub idle_timeout: Option<std::time::Duration>,

    /// The time after which a connection is closed whose client reads nothing [default: 5min]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub write_timeout: Option<std::time::Duration>,

    /// The memory limit for the queries of one connection, within --memory-limit
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub query_memory: Option<usize>,

    /// The memory for results that are shared with clients on this machine instead of copied to them; 0 copies them
    /// [default: an eighth of the machine's memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size_or_none)]
    pub shared_memory: Option<usize>,

    /// How results go over Freestone wire: measured, or for experiments plain, encoded, sentinel or mask, with lz4, zstd or snappy
    #[arg(long, hide = true, default_value = "measured", value_parser = parse_forms)]
    pub wire_forms: Preference,

    /// Lets workers run parts of queries: HOST:PORT of each with commas, dns:NAME for the addresses of a name, or join for
    /// those that join
    #[arg(long, value_name = "HOSTS", requires = "token_file")]
    pub cluster: Option<Hosts>,

    /// The file with the secret of the cluster
    #[arg(long, value_name = "FILE", requires = "cluster")]
    pub token_file: Option<PathBuf>,

    /// Where workers join, with --cluster join: an address, or a port on the loopback interface [default: 127.0.0.1:5579]
    #[arg(long, value_name = "ADDRESS", requires = "cluster")]
    pub cluster_listen: Option<String>,

    /// The certificates of workers to trust, in PEM format. Needed for workers on other machines
    #[arg(long, value_name = "FILE", requires = "cluster")]
    pub cluster_ca: Option<PathBuf>,

    /// The format of log lines on standard error
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    pub log_format: String,

    #[command(flatten)]
    pub engine: EngineArgs,
}

const WORKER_HELP: &str = "\
Examples:
  (umask 077; head -c 32 /dev/urandom | base64 > cluster.token)
  freestone worker --store file:///mnt/shared/sales --listen 5581 --token-file cluster.token
  freestone worker --store file:///mnt/shared/sales --listen 0.0.0.0:5578 --token-file cluster.token \\
      --tls-cert cert.pem --tls-key key.pem --join server:5579 --ca ca.pem --advertise worker1:5578

A worker reads the database and never writes it. All processes of a cluster have the same token, and the same version.
When it takes tasks, it prints `listening: worker://127.0.0.1:5581`. After SIGTERM or Ctrl-C it takes no new tasks, and
ends when those that have begun are done.";

#[derive(Debug, Args)]
#[command(after_help = WORKER_HELP)]
pub struct WorkerArgs {
    /// The database: s3://bucket/path, gs://bucket/path, az://container/path, file:///folder, or a folder of this machine
    #[arg(long, value_name = "URL")]
    pub store: PathBuf,

    /// Listens for servers: an address, or a port on the loopback interface (0: a free one)
    #[arg(long, value_name = "ADDRESS")]
    pub listen: String,

    /// The file with the secret of the cluster
    #[arg(long, value_name = "FILE")]
    pub token_file: PathBuf,

    /// Joins a server that was started with --cluster join
    #[arg(long, value_name = "ADDRESS")]
    pub join: Option<String>,

    /// The address by which the server reaches this worker [default: that on which it listens]
    #[arg(long, value_name = "ADDRESS", requires = "join")]
    pub advertise: Option<String>,

    /// The certificates of the server to trust, in PEM format. Needed for a server on another machine
    #[arg(long, value_name = "FILE", requires = "join")]
    pub ca: Option<PathBuf>,

    /// The TLS certificate with its chain, in PEM format
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// The key of the certificate, in PEM format
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Serves metrics for Prometheus over HTTP, on a loopback address
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,

    /// Ends when standard input is closed
    #[arg(long, hide = true)]
    pub until_closed: bool,

    /// The format of log lines on standard error
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    pub log_format: String,

    /// The memory for queries and caches, such as 2GB or 512MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory_limit: Option<usize>,

    /// The number of threads for tasks [default: one per core]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,

    #[command(flatten)]
    pub cache: CacheArgs,
}

const CLUSTER_HELP: &str = "\
Examples:
  freestone cluster up --workers 3 file:///data/sales
  freestone cluster up --workers 2 sales --pg 5432 --no-auth

Prints the address of each worker and of the server. Ctrl-C and SIGTERM end them all.";

#[derive(Debug, Args)]
pub struct ClusterArgs {
    #[command(subcommand)]
    pub command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Starts workers and one server on this machine, until Ctrl-C
    #[command(after_help = CLUSTER_HELP)]
    Up(Box<ClusterUpArgs>),
}

#[derive(Debug, Args)]
pub struct ClusterUpArgs {
    /// The number of workers
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub workers: usize,

    /// The threads of each worker [default: an equal share of the cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub worker_threads: Option<usize>,

    /// The memory of each worker [default: an equal share of half of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub worker_memory: Option<usize>,

    #[command(flatten)]
    pub serve: ServeArgs,
}

const USER_HELP: &str = "\
Examples:
  freestone user add ann --role admin --users users
  echo secret | freestone user add bob --role read --users users
  freestone user list --users users";

#[derive(Debug, Args)]
#[command(after_help = USER_HELP)]
pub struct UserArgs {
    #[command(subcommand)]
    pub command: UserCommand,
}

#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Adds a user, or changes a user's role and password. Reads the password from the terminal or standard input
    Add {
        name: String,
        /// The rights of the user: read, write or admin
        #[arg(long)]
        role: Role,
        /// The file of users, which is created if it does not exist
        #[arg(long, value_name = "FILE")]
        users: PathBuf,
    },
    /// Removes a user
    Remove {
        name: String,
        #[arg(long, value_name = "FILE")]
        users: PathBuf,
    },
    /// Lists users and their roles
    List {
        #[arg(long, value_name = "FILE")]
        users: PathBuf,
    },
}

const CALIBRATE_HELP: &str = "\
Takes less than a minute. The machine should have no other load meanwhile. ADVISE and WHATIF use the results.
The profile is stored in ~/.local/state/freestone/profile.json, or in the file that FREESTONE_PROFILE names.";

#[derive(Debug, Args)]
#[command(after_help = CALIBRATE_HELP)]
pub struct CalibrateArgs {
    /// Takes one or two seconds. The figures are rough
    #[arg(long)]
    pub quick: bool,

    /// A folder on the disk to measure [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// Prints every figure with its interval, not only what follows from them
    #[arg(long)]
    pub verbose: bool,

    /// Prints JSON instead of text
    #[arg(long, conflicts_with = "verbose")]
    pub json: bool,

    /// Writes tables and plots as an HTML page
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

const ADVISE_HELP: &str = "\
Examples:
  freestone advise sales
  freestone advise sales --table orders --budget 2GB
  freestone advise sales --workload dashboard.sql --json
  freestone advise sales --apply

Without --workload, advice is based on the queries that ran on the database (SELECT * FROM freestone_workload()).
A workload file contains SELECT statements. A comment `-- weight: 10` before a statement means that it runs ten times as often.
Before a design is recommended, the best designs are stored as samples, in memory or a temporary folder, and measured.";

#[derive(Debug, Args)]
#[command(after_help = ADVISE_HELP)]
pub struct AdviseArgs {
    /// The database folder
    pub db: PathBuf,

    /// Recommends designs for this table only
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,

    /// A file of weighted statements, in place of the workload log
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,

    /// The maximum size of a table with its copies, such as 2GB or 512MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub budget: Option<usize>,

    /// The maximum number of copies of a table in different designs, including the table; 1 proposes none
    #[arg(long, value_name = "N", default_value = "2")]
    pub copies: usize,

    /// Recommends designs by prediction, without measurements
    #[arg(long)]
    pub no_verify: bool,

    /// Converts the tables to the recommended designs
    #[arg(long)]
    pub apply: bool,

    /// Prints JSON instead of text
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub engine: EngineArgs,
}

/// A source of statements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Script {
    Text(String),
    File(PathBuf),
}

/// Parses the command line; ends the process with help or with an error of usage.
pub fn parse() -> (Cli, Vec<Script>) {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(message) = mistyped_command(&words) {
        Cli::command().error(clap::error::ErrorKind::InvalidSubcommand, message).exit();
    }
    let matches = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let scripts = scripts(&cli, &matches);
    (cli, scripts)
}

/// What is wrong with a command line that begins with two names of which the first is no command. Only commands have
/// arguments; a database has options.
fn mistyped_command(words: &[OsString]) -> Option<String> {
    let names: Vec<&str> = words.iter().map_while(|word| word.to_str()).take(2).collect();
    let [first, second] = names[..] else { return None };
    if first.starts_with('-') || second.starts_with('-') {
        return None;
    }
    let commands = Cli::command();
    let shown = commands.get_subcommands().filter(|command| !command.is_hide_set());
    let names: Vec<&str> = shown.map(clap::Command::get_name).collect();
    if first == "help" || commands.find_subcommand(first).is_some() {
        return None;
    }
    let hint = match freestone::closest(first, &names) {
        Some(similar) => format!("did you mean `freestone {similar} {second}`?"),
        None => format!("commands are {}; a statement for a database follows -c", names.join(", ")),
    };
    Some(format!("there is no command {first}\nhint: {hint}"))
}

/// Statements and files, in the order of the command line.
fn scripts(cli: &Cli, matches: &ArgMatches) -> Vec<Script> {
    let places = |id: &str| matches.indices_of(id).into_iter().flatten();
    let texts = places("command_text").zip(cli.command_text.iter().cloned().map(Script::Text));
    let files = places("file").zip(cli.file.iter().cloned().map(Script::File));
    let mut scripts: Vec<_> = texts.chain(files).collect();
    scripts.sort_by_key(|(place, _)| *place);
    scripts.into_iter().map(|(_, script)| script).collect()
}

/// Parses a size: `2GB`, `512MiB`, `1.5g` or bytes. K, M, G and T are powers of 1000; Ki, Mi, Gi and Ti are powers of
/// 1024.
fn parse_size(text: &str) -> Result<usize, String> {
    freestone::parse_size(text).map_err(|error| error.to_string())
}

fn parse_size_or_none(text: &str) -> Result<usize, String> {
    if text.trim() == "0" { Ok(0) } else { parse_size(text) }
}

/// Parses a duration: `30s`, `5min`, `500ms`, `1h`.
fn parse_time(text: &str) -> Result<std::time::Duration, String> {
    let invalid = || format!("`{text}` is not a time: write it as 500ms, 30s, 5min or 1h");
    let digits = text.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1000,
        "min" | "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(invalid()),
    };
    let count: u64 = digits.parse().map_err(|_| invalid())?;
    let millis = count.checked_mul(factor).filter(|millis| (1..=u64::from(u32::MAX)).contains(millis));
    millis.map(std::time::Duration::from_millis).ok_or_else(invalid)
}

fn parse_umask(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode & !0o77 == 0 => Ok(mode),
        _ => Err("give the permissions of the group and of others as octal digits, from 0 to 077".into()),
    }
}

fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads) if (1..=1024).contains(&threads) => Ok(threads),
        _ => Err("threads are a number from 1 to 1024".into()),
    }
}

fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if scale > 0.0 && scale <= 100_000.0 => Ok(scale),
        _ => Err("a scale factor is a number above 0".into()),
    }
}

fn parse_forms(text: &str) -> Result<Preference, String> {
    let (form, codec) = text.split_once('-').unwrap_or((text, "none"));
    let codec = match codec {
        "none" => ByteCodec::None,
        "lz4" => ByteCodec::Lz4,
        "zstd" => ByteCodec::Zstd,
        "snappy" => ByteCodec::Snappy,
        _ => return Err("a codec is none, lz4, zstd or snappy".into()),
    };
    match form {
        "measured" if codec == ByteCodec::None => Ok(Preference::Measured),
        "plain" => Ok(Preference::Plain(codec)),
        "encoded" => Ok(Preference::Encoded(codec)),
        "sentinel" => Ok(Preference::Sentinel(codec)),
        "mask" => Ok(Preference::Mask(codec)),
        _ => {
            Err("forms are measured, plain, encoded, sentinel or mask, all but the first with a codec, as plain-lz4"
                .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_have_codecs() {
        assert_eq!(parse_forms("measured"), Ok(Preference::Measured));
        assert_eq!(parse_forms("plain-zstd"), Ok(Preference::Plain(ByteCodec::Zstd)));
        assert_eq!(parse_forms("encoded"), Ok(Preference::Encoded(ByteCodec::None)));
        assert_eq!(parse_forms("mask-snappy"), Ok(Preference::Mask(ByteCodec::Snappy)));
        assert_eq!(parse_forms("sentinel"), Ok(Preference::Sentinel(ByteCodec::None)));
        assert!(["", "measured-lz4", "plain-gzip", "stored"].iter().all(|text| parse_forms(text).is_err()));
    }

    #[test]
    fn the_grammar_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_mistyped_command_is_no_database() {
        let message = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            mistyped_command(&words)
        };
        assert!(
            message(&["advize", "shop"]).is_some_and(|text| text.contains("did you mean `freestone advise shop`?"))
        );
        assert!(message(&["shop", "lineitem"]).is_some_and(|text| text.contains("commands are demo, check")));
        for words in [&["shop"][..], &["advise", "shop"], &["shop", "-c"], &["-c", "x"], &["help", "serve"], &[]] {
            assert_eq!(message(words), None, "{words:?}");
        }
    }

    #[test]
    fn scripts_keep_the_order_of_the_command_line() {
        let matches = Cli::command().get_matches_from(["freestone", "db", "-c", "a", "-f", "b", "-c", "c"]);
        let cli = Cli::from_arg_matches(&matches).expect("valid arguments");
        let expected = [Script::Text("a".into()), Script::File("b".into()), Script::Text("c".into())];
        assert_eq!(scripts(&cli, &matches), expected);
    }

    #[test]
    fn times_have_units() {
        for (text, millis) in [("500ms", 500), ("30s", 30_000), ("5min", 300_000), ("1h", 3_600_000)] {
            assert_eq!(parse_time(text), Ok(std::time::Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", "0s", "-1s", "1.5s", "99999999999h"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_have_decimal_and_binary_units() {
        for (text, bytes) in [("1000", 1000), ("2GB", 2_000_000_000), ("1.5 KiB", 1536), ("3m", 3_000_000), ("7b", 7)] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "GB", "2XB", "-1GB", "0", "nan", "inf", "1e400"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert_eq!((parse_size_or_none("0"), parse_size_or_none("2MB")), (Ok(0), Ok(2_000_000)));
        assert!(parse_size_or_none("-1").is_err());
    }
}
