//! The laboratory's command line and its help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use freestone_data::holloway::Table as Generated;
use freestone_lab::experiments::ScanSettings;
use freestone_lab::experiments::tenants::options::{Burn, Isolation, TenantOptions, parse_burn, parse_isolation};

/// Experiments of the papers, peers of the benchmarks, and their data.
#[derive(Debug, Parser)]
#[command(name = "freestone-lab", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
// There is one, from the command line.
#[allow(clippy::large_enum_variant)]
pub enum Command {
    /// Lists the experiments
    List,
    /// Runs experiments
    #[command(after_help = "Example:\n  freestone-lab run crossover --rows 2000000\n  freestone-lab report")]
    Run {
        /// Names of experiments (see `freestone-lab list`), or `all`
        #[arg(required = true)]
        names: Vec<String>,

        /// The number of rows of generated tables; each experiment has a default
        #[arg(long)]
        rows: Option<usize>,

        /// The scale factor of TPC-H or SSB; each experiment has a default
        #[arg(long, value_parser = parse_scale)]
        scale: Option<f64>,

        /// The number of random queries per point of the papers' figures; each experiment has a default
        #[arg(long)]
        queries: Option<usize>,

        /// Nanoseconds to add to emulated persistent memory per line read and per line flushed, as 60,400
        #[arg(long, value_name = "READ,WRITE", value_parser = parse_latencies, default_value = "0,0")]
        latencies: [u64; 2],

        /// A further design of SSB's fact table, as the options of ALTER TABLE … SET DESIGN. Can be repeated
        #[arg(long = "design", value_name = "OPTIONS")]
        designs: Vec<String>,

        #[command(flatten)]
        scan: ScanArgs,

        #[command(flatten)]
        tenants: TenantArgs,

        /// The seconds of the run: protocol-* leave out, and name, what does not fit
        #[arg(long, value_name = "S")]
        time: Option<u32>,

        /// The folder for results
        #[arg(long, value_name = "DIR", default_value = "freestone-lab")]
        output: PathBuf,
    },
    /// Writes the report of the experiments that have run: an overview, and a page for each paper
    Report {
        /// Runs the papers' experiments first, each once, at a size that fits the time. A run that was interrupted continues
        #[arg(long)]
        run: bool,

        /// The minutes after which no experiment begins, and the last one is ended
        #[arg(long, value_name = "N", default_value_t = 28, requires = "run")]
        minutes: u64,

        /// A folder of results of other versions, machines or sizes, shown as kept runs next to the measurements
        #[arg(long, value_name = "DIR")]
        kept: Option<PathBuf>,

        /// The folder with the results
        #[arg(long, value_name = "DIR", default_value = "freestone-lab")]
        output: PathBuf,
    },
    /// Compares two results of one experiment: two machines, a physical and a virtual one, or two builds
    #[command(
        after_help = "Example:\n  freestone-lab compare physical/memory-layouts.json virtual/memory-layouts.json"
    )]
    Compare {
        /// The result with which the other one is compared
        base: PathBuf,

        /// The other result
        other: PathBuf,

        /// A file for the comparison as an HTML page
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Generates data as Parquet files
    #[command(after_help = "Example:\n  freestone-lab generate tpch --scale 1 --output data/tpch1")]
    Generate {
        /// What to generate
        #[arg(value_parser = ["tpch", "ssb", "acs", "ontime"])]
        name: String,

        /// The scale factor; TPC-H has about 1 GB of text at 1, SSB 600 MB, acs and ontime a million rows
        #[arg(long, default_value_t = 1.0, value_parser = parse_scale)]
        scale: f64,

        /// The folder for the files, which is created if it does not exist
        #[arg(long, value_name = "DIR")]
        output: PathBuf,
    },
    /// Runs a command on one end of a slow network, in a network namespace. Needs root
    #[command(after_help = LINK_HELP)]
    Link(LinkArgs),
    /// Serves Arrow stream files over Arrow Flight, for bench/export.py
    #[command(hide = true)]
    FlightServer {
        #[arg(long, value_name = "ADDRESS")]
        listen: String,

        /// NAME=FILE
        #[arg(required = true, value_parser = parse_named_file)]
        files: Vec<(String, PathBuf)>,
    },
    /// Uses cores in one way until it is ended, as a neighbour of the experiments with tenants
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Burn {
        #[arg(value_parser = parse_burn)]
        kind: Burn,

        #[arg(long, default_value_t = 1)]
        threads: usize,
    },
    /// Runs a program until it or standard input ends
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Keep {
        #[arg(last = true, required = true)]
        command: Vec<std::ffi::OsString>,
    },
    /// Times results kept with three allocators, and prints JSON
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    ProbeAllocators {
        #[arg(long)]
        rows: usize,
    },
    /// Times rows and columns in memory, and prints JSON
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    ProbeLayouts {
        #[arg(long)]
        rows: usize,
    },
    /// Boots an emulated virtual machine with a database's server, to try its files. Emulation is never measured
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    TryMachine {
        /// The program `freestone`
        #[arg(long, value_name = "PATH")]
        program: PathBuf,

        /// A database folder
        database: PathBuf,
    },
}

/// The variables of Holloway and DeWitt's scans.
#[derive(Debug, Args)]
pub struct ScanArgs {
    /// The reads in flight of holloway-scans and holloway-pages
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = clap::value_parser!(u16).range(1..=1024))]
    io_depth: u16,

    /// The KiB of each of their reads, a multiple of 32
    #[arg(long, value_name = "KIB", default_value_t = 128, value_parser = parse_unit)]
    io_unit: usize,

    /// The tuples of a block of their output
    #[arg(long, value_name = "ROWS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    block_rows: u32,

    /// Some tables of holloway-size, holloway-scans and holloway-pages: narrow-e, narrow-s, wide-e, narrow-u, strings
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse_table)]
    pub tables: Vec<Generated>,
}

impl ScanArgs {
    pub fn settings(&self) -> ScanSettings {
        let (io_depth, block_rows) = (usize::from(self.io_depth), self.block_rows as usize);
        ScanSettings { io_depth, io_unit: self.io_unit << 10, block_rows }
    }
}

fn parse_table(text: &str) -> Result<Generated, String> {
    let names = || Generated::ALL.map(|table| table.name().to_lowercase()).join(", ");
    let found = Generated::ALL.into_iter().find(|table| table.name().eq_ignore_ascii_case(text));
    found.ok_or_else(|| format!("there is no table {text}, but {}", names()))
}

fn parse_unit(text: &str) -> Result<usize, String> {
    let unit = text.parse().ok().filter(|unit: &usize| (32..=16 << 10).contains(unit) && unit.is_multiple_of(32));
    unit.ok_or_else(|| format!("{text} is no multiple of 32 between 32 and 16384"))
}

/// Options of the experiments `tenants-*`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tenants")]
pub struct TenantArgs {
    /// The levels of isolation: shared, process, cgroup, container, vm [default: all that this machine has]
    #[arg(long, value_name = "LEVELS", value_delimiter = ',', value_parser = parse_isolation)]
    isolation: Vec<Isolation>,

    /// The greatest number of tenants
    #[arg(long)]
    tenants: Option<usize>,

    /// The greatest number of users of a tenant
    #[arg(long)]
    users: Option<usize>,

    /// The seconds of one measurement
    #[arg(long)]
    seconds: Option<f64>,

    /// What burns next to tenants: arithmetic, streams, loads, pages
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = parse_burn)]
    burn: Vec<Burn>,

    /// How often each point is measured [default: 3]
    #[arg(long)]
    repetitions: Option<usize>,

    /// The short variant: a small scale, one repetition, few points; of protocol-*, few engines and no WAN
    #[arg(long)]
    short: bool,

    /// The program `freestone` [default: the one next to this program]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

impl TenantArgs {
    pub fn options(&self) -> TenantOptions {
        TenantOptions {
            isolation: self.isolation.clone(),
            tenants: self.tenants,
            users: self.users,
            seconds: self.seconds,
            burn: self.burn.clone(),
            repetitions: self.repetitions,
            short: self.short,
            program: self.program.clone(),
        }
    }
}

const LINK_HELP: &str = "\
The command finds the server's end in its environment: FREESTONE_LINK_SERVER is its address, and
`nsenter --net=$FREESTONE_LINK_NAMESPACE PROGRAM` runs a program there. Round trip, rate, loss and the throughput
of one TCP stream are measured first and printed. Everything is gone when the command has ended.

Example:
  freestone-lab link --rate 100mbit --delay 25ms --loss 1% -- ping -c 3 10.77.0.2";

/// A link with the same properties in both directions.
#[derive(Debug, Args)]
pub struct LinkArgs {
    /// Bits per second, such as 100mbit or 1gbit
    #[arg(long, value_parser = parse_rate)]
    pub rate: u64,

    /// The delay in one direction, such as 25ms or 300us; a round trip has two delays
    #[arg(long, value_parser = parse_delay, default_value = "0ms")]
    pub delay: std::time::Duration,

    /// The share of packets that are lost, such as 1%
    #[arg(long, value_parser = parse_share, default_value = "0%")]
    pub loss: f64,

    /// The bytes that may wait to be sent, such as 4MB [default: four times rate × round trip]
    #[arg(long, value_parser = parse_size)]
    pub queue: Option<usize>,

    /// The seed of the random losses
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// TCP's congestion control on both ends [default: the system's]
    #[arg(long, value_enum)]
    pub congestion: Option<Control>,

    /// The command, after --
    #[arg(last = true, required = true)]
    pub command: Vec<std::ffi::OsString>,
}

/// TCP's congestion control.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum Control {
    /// Halves its rate at each loss
    Reno,
    /// Linux's default, which also reduces its rate at each loss
    Cubic,
    /// Follows measured rates, so that random losses cost it little
    Bbr,
}

/// Parses a size: `2GB`, `512MiB`, `1.5g` or bytes.
fn parse_size(text: &str) -> Result<usize, String> {
    freestone::parse_size(text).map_err(|error| error.to_string())
}

fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if scale > 0.0 && scale <= 100_000.0 => Ok(scale),
        _ => Err("a scale factor is a number above 0".into()),
    }
}

/// A number and the unit that follows it.
fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number = text[..digits].parse().ok()?;
    Some((number, text[digits..].trim()))
}

fn parse_rate(text: &str) -> Result<u64, String> {
    let wrong = || "a rate is a number and kbit, mbit or gbit, as 100mbit".to_owned();
    let (number, unit) = number_and_unit(text).ok_or_else(wrong)?;
    let bits = match unit {
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return Err(wrong()),
    };
    Ok((number * bits) as u64)
}

fn parse_delay(text: &str) -> Result<std::time::Duration, String> {
    let wrong = || "a delay is a number and us, ms or s, as 25ms".to_owned();
    let (number, unit) = number_and_unit(text).ok_or_else(wrong)?;
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err(wrong()),
    };
    std::time::Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())
}

fn parse_share(text: &str) -> Result<f64, String> {
    match number_and_unit(text) {
        Some((percent, "%")) if percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("a share is a percentage, as 1%".into()),
    }
}

fn parse_latencies(text: &str) -> Result<[u64; 2], String> {
    let numbers = text.split_once(',').and_then(|(read, write)| Some([read.parse().ok()?, write.parse().ok()?]));
    numbers
        .filter(|numbers| numbers.iter().all(|ns| *ns <= 100_000))
        .ok_or_else(|| "two numbers of nanoseconds, as 60,400".into())
}

fn parse_named_file(text: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or("a name, = and a file")?;
    Ok((name.into(), file.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_have_units() {
        assert_eq!((parse_rate("100mbit"), parse_rate("1.5gbit")), (Ok(100_000_000), Ok(1_500_000_000)));
        assert_eq!(parse_delay("0.3ms"), Ok(std::time::Duration::from_micros(300)));
        assert_eq!((parse_share("1%"), parse_share("0.5 %")), (Ok(0.01), Ok(0.005)));
        assert!(["100", "mbit", "1mb", "-1mbit"].iter().all(|text| parse_rate(text).is_err()));
        assert!(["5", "5m", "1e400s"].iter().all(|text| parse_delay(text).is_err()));
        assert_eq!(parse_latencies("60,400"), Ok([60, 400]));
        assert!(["60", "60,", "-1,4", "1,1000000"].iter().all(|text| parse_latencies(text).is_err()));
        assert!(["1", "101%", "%"].iter().all(|text| parse_share(text).is_err()));
    }

    #[test]
    fn tables_have_the_papers_names() {
        assert_eq!((parse_table("narrow-e"), parse_table("Strings")), (Ok(Generated::NarrowE), Ok(Generated::Strings)));
        assert!(parse_table("narrow").is_err_and(|message| message.contains("narrow-s, wide-e")));
    }

    #[test]
    fn the_grammar_is_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
