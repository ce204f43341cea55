//! The options of the command line and their help.

use std::path::PathBuf;

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
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
  freestone freestone://ann@localhost:5577    a shell on a server; FREESTONE_PASSWORD, or asked for
  freestone -c \"SELECT count(*) FROM 'orders.parquet'\"
  freestone sales -f load.sql --timing        runs a script, stops at its first error
  freestone sales -c 'SELECT * FROM t' --format parquet --output t.parquet
  echo 'SELECT 1;' | freestone --format csv   statements from standard input
  freestone check sales                       verifies a database
  freestone serve sales --pg 5432             serves it to psql, BI tools and drivers

Results go to standard output, everything else to standard error.
Exit status: 0; 1 when a statement failed; 2 for wrong usage.
A database whose name is also a command is reached as ./NAME.";

/// An analytical database that stores each table in the layout its work needs.
#[derive(Debug, Parser)]
#[command(name = "freestone", version, long_version = LONG_VERSION, after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,

    /// The database folder, created when missing, or a server's address freestone://user@host:port; none, or :memory:: in memory
    pub db: Option<PathBuf>,

    /// Runs these statements; may be given several times
    #[arg(short, long = "command", value_name = "SQL", allow_hyphen_values = true)]
    pub command_text: Vec<String>,

    /// Runs the statements of a file (- is standard input); may be given several times
    #[arg(short, long, value_name = "FILE")]
    pub file: Vec<PathBuf>,

    #[command(flatten)]
    pub output: OutputArgs,

    #[command(flatten)]
    pub engine: EngineArgs,
}

#[derive(Debug, Args)]
pub struct OutputArgs {
    /// How results are printed
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,

    /// Writes results to a file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Prints the time of each statement on standard error
    #[arg(long)]
    pub timing: bool,
}

#[derive(Debug, Clone, Copy, Args)]
pub struct EngineArgs {
    /// Memory for queries and caches, as 2GB or 512MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory_limit: Option<usize>,

    /// Threads that work on queries; default: one for each core
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,

    /// Refuses every change; the database must exist
    #[arg(long)]
    pub read_only: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Shows the main job on generated data, in under two minutes
    Demo(DemoArgs),
    /// Verifies every checksum and invariant of a database
    Check(CheckArgs),
    /// Measures this machine, for predictions of what scans cost
    Calibrate(CalibrateArgs),
    /// Recommends designs for the tables of a database, by what queries ask of them
    Advise(AdviseArgs),
    /// Serves a database over PostgreSQL's protocol and Arrow Flight SQL
    Serve(Box<ServeArgs>),
    /// Adds, removes and lists the users of a server
    User(UserArgs),
}

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

--repair makes a damaged commit log usable again: it keeps the commits up to the damage, saves what it
cuts off beside the log, and says which commits, tables and rows are lost. Segments are left as they are:
what is missing or unreadable there is named, to be restored from a copy.

Exit status: 0 if the database is sound, or is so now; 1 if not, naming file and page.";

#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
pub struct CheckArgs {
    /// The database folder
    pub db: PathBuf,

    /// Repairs the commit log first; nothing is deleted
    #[arg(long, conflicts_with = "read_only")]
    pub repair: bool,

    #[command(flatten)]
    pub engine: EngineArgs,
}

const SERVE_HELP: &str = "\
Examples:
  freestone serve sales
  freestone serve sales --listen 5577 --pg 5432
  freestone serve sales --pg 127.0.0.1:5432 --flight 127.0.0.1:31337 --users users
  freestone serve sales --pg 0.0.0.0:5432 --users users --tls-cert cert.pem --tls-key key.pem

Without --users there is one user, `freestone`, whose password of this run is printed on standard error.
Once it accepts connections the server prints an address a line, as `listening: postgres://127.0.0.1:5432`.
SIGTERM and Ctrl-C stop it: running statements may finish for ten seconds.";

#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub struct ServeArgs {
    /// The database folder, created when missing; none, or :memory:: in memory
    pub db: Option<PathBuf>,

    /// Freestone wire, for Freestone's own clients: an address, or a port of the loopback interface; 0 picks a free one;
    /// or unix:/path. 127.0.0.1:5577 where no protocol is asked for
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,

    /// PostgreSQL's protocol: an address, or a port of the loopback interface; 0 picks a free one
    #[arg(long, value_name = "ADDRESS")]
    pub pg: Option<String>,

    /// Arrow Flight SQL
    #[arg(long, value_name = "ADDRESS")]
    pub flight: Option<String>,

    /// Metrics in Prometheus' form over HTTP, on a loopback address
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,

    /// The file of users that `freestone user add` writes
    #[arg(long, value_name = "FILE")]
    pub users: Option<PathBuf>,

    /// Lets anybody in, with all rights; on loopback addresses only
    #[arg(long)]
    pub no_auth: bool,

    /// The certificate and its chain, PEM
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// The certificate's key, PEM
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// Connections at the same time; default: 1000
    #[arg(long, value_name = "N")]
    pub max_connections: Option<usize>,

    /// How long a client may take to log in; default: 10s
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub login_timeout: Option<std::time::Duration>,

    /// How long a statement may take, as 30s, 5min or 500ms
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub statement_timeout: Option<std::time::Duration>,

    /// How long a connection may be idle
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub idle_timeout: Option<std::time::Duration>,

    /// How long a client may take nothing of what is sent to it [default: 5min]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub write_timeout: Option<std::time::Duration>,

    /// Memory that the queries of one connection may hold, within --memory-limit
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub query_memory: Option<usize>,

    /// Memory that results of clients on this machine may take where they are shared with them, not copied; 0: copied
    /// [default: an eighth of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = parse_size_or_none)]
    pub shared_memory: Option<usize>,

    /// How results go over Freestone wire: measured, or for experiments plain or encoded, with lz4, zstd or snappy
    #[arg(long, hide = true, default_value = "measured", value_parser = parse_forms)]
    pub wire_forms: Preference,

    /// The form of log lines on standard error
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    pub log_format: String,

    #[command(flatten)]
    pub engine: EngineArgs,
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
    /// Adds a user, or changes one's role and password; the password comes from the terminal or standard input
    Add {
        name: String,
        /// What the user may do: read, write or admin
        #[arg(long)]
        role: Role,
        /// The file of users, created when missing
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
Takes under a minute; do nothing else meanwhile. Predictions of ADVISE and WHATIF use what it finds.
The profile is kept in ~/.local/state/freestone/profile.json, or where FREESTONE_PROFILE says.";

#[derive(Debug, Args)]
#[command(after_help = CALIBRATE_HELP)]
pub struct CalibrateArgs {
    /// Takes a second or two, for rough figures
    #[arg(long)]
    pub quick: bool,

    /// A folder on the disk to measure; default: this one
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// Prints JSON instead of a table
    #[arg(long)]
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

Without --workload, advice is by the queries that ran on the database (SELECT * FROM freestone_workload()).
A workload file holds SELECTs; a comment `-- weight: 10` before one says how much more often it runs.
The best designs are stored as a sample, in memory or a temporary folder, and timed before one is recommended.";

#[derive(Debug, Args)]
#[command(after_help = ADVISE_HELP)]
pub struct AdviseArgs {
    /// The database folder
    pub db: PathBuf,

    /// Advises on this table only
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,

    /// A file of weighted SQL, in place of the log of what ran
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,

    /// What a table may take, copies included, as 2GB or 512MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub budget: Option<usize>,

    /// Copies of a table in designs of their own that may be recommended, the table included
    #[arg(long, value_name = "N", default_value = "1")]
    pub copies: usize,

    /// Recommends by prediction alone
    #[arg(long)]
    pub no_verify: bool,

    /// Converts the tables to the designs that are recommended
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
    let matches = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let scripts = scripts(&cli, &matches);
    (cli, scripts)
}

/// Texts and files, in the order of the command line.
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
        _ => Err("forms are measured, plain or encoded, the last two with a codec, as plain-lz4".into()),
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
        assert!(["", "measured-lz4", "plain-gzip", "stored"].iter().all(|text| parse_forms(text).is_err()));
    }

    #[test]
    fn the_grammar_is_consistent() {
        Cli::command().debug_assert();
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
