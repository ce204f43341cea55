//! `freestone cluster`: a server and its workers on this machine.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use freestone::DiskCache;
use freestone_cluster::Hosts;
use freestone_wire::auth::random;
use tempfile::TempDir;

use crate::args::{CacheArgs, ClusterCommand, ClusterUpArgs, EngineArgs, ServeArgs};
use crate::failure::{Failure, note};
use crate::serve;

/// The time for workers to end, after which they are killed.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);
/// The bytes of the cluster's secret.
const TOKEN_BYTES: usize = 32;

pub fn run(command: ClusterCommand) -> Result<(), Failure> {
    let ClusterCommand::Up(args) = command;
    up(*args)
}

fn up(mut args: ClusterUpArgs) -> Result<(), Failure> {
    if args.serve.cluster.is_some() {
        return Err(Failure::with_hint(
            "`cluster up` starts its own workers, so there are no others",
            "with workers that run already: freestone serve URL --cluster HOSTS --token-file FILE",
        ));
    }
    let failed = |error: std::io::Error| Failure::error(format!("cannot write a temporary folder: {error}"));
    let folder = TempDir::with_prefix("freestone-cluster-").map_err(failed)?;
    let token = folder.path().join("token");
    write_token(&token).map_err(failed)?;
    let store = match args.serve.db.take() {
        Some(db) => db,
        None => PathBuf::from(format!("file://{}", folder.path().join("database").display())),
    };
    // The server comes first: it makes the database if there is none.
    let plan = serve::prepare(&args.serve)?;
    let own = cache_of(&args.serve.engine.cache, args.workers, "server");
    let database = crate::open(Some(&store), &EngineArgs { cache: own, ..args.serve.engine.clone() })?;
    let mut workers = Workers::default();
    for number in 1..=args.workers {
        workers.start(number, &store, &token, &args)?;
    }
    let serving = ServeArgs {
        db: Some(store),
        cluster: Some(Hosts::Named(workers.addresses.clone())),
        token_file: Some(token),
        ..args.serve
    };
    serve::run_on(&serving, plan, database)
}

/// A random secret, which only this user can read.
fn write_token(path: &Path) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let text: String = random::<TOKEN_BYTES>().iter().map(|byte| format!("{byte:02x}")).collect();
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}

/// The processes of workers, which end with this one.
#[derive(Default)]
struct Workers {
    children: Vec<Child>,
    addresses: Vec<String>,
}

impl Workers {
    /// Starts a worker, and waits until it takes tasks.
    fn start(&mut self, number: usize, store: &Path, token: &Path, args: &ClusterUpArgs) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::error(format!("cannot start a worker: {error}"));
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg("worker").arg("--store").arg(store).arg("--token-file").arg(token);
        command.args(["--listen", "127.0.0.1:0", "--until-closed", "--log-format", args.serve.log_format.as_str()]);
        command.arg("--threads").arg(threads(args).to_string());
        if let Some(bytes) = memory(args) {
            command.arg("--memory-limit").arg(bytes.to_string());
        }
        if let Some(DiskCache { folder, bytes }) =
            cache_of(&args.serve.engine.cache, args.workers, &format!("worker-{number}")).disk_cache()
        {
            command.arg("--cache").arg(folder).arg("--cache-size").arg(bytes.to_string());
        }
        // A worker ends when its standard input is closed, so that it does not outlive this process, however that ends.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let stderr = child.stderr.take();
        self.children.push(child);
        let mut lines = BufReader::new(stderr.ok_or_else(|| Failure::error("a worker has no standard error"))?);
        let address = address(&mut lines).map_err(failed)??;
        note(format_args!("listening: worker://{address}"));
        self.addresses.push(address);
        std::thread::spawn(move || lines.lines().map_while(Result::ok).for_each(note));
        Ok(())
    }
}

/// The address that a worker prints; what it prints before is passed on.
fn address(lines: &mut BufReader<ChildStderr>) -> std::io::Result<Result<String, Failure>> {
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 {
        if let Some(address) = line.trim_end().strip_prefix("listening: worker://") {
            return Ok(Ok(address.to_owned()));
        }
        note(line.trim_end());
        line.clear();
    }
    Ok(Err(Failure::error("a worker has ended; its error is above")))
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.children.iter_mut().for_each(|child| drop(child.stdin.take()));
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if self.children.iter_mut().all(|child| matches!(child.try_wait(), Ok(Some(_)) | Err(_))) {
                return;
            }
            sleep(POLL);
        }
        for child in &mut self.children {
            // It may have ended by now.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The cache of one process: a folder in the given one, and an equal share of the bytes.
fn cache_of(given: &CacheArgs, workers: usize, name: &str) -> CacheArgs {
    match given.disk_cache() {
        None => CacheArgs::default(),
        Some(DiskCache { folder, bytes }) => {
            CacheArgs { cache: Some(folder.join(name)), cache_size: usize::try_from(bytes / (workers as u64 + 1)).ok() }
        }
    }
}

/// The threads of a worker.
fn threads(args: &ClusterUpArgs) -> usize {
    args.worker_threads.unwrap_or_else(|| (freestone::Options::default().threads / args.workers).max(1))
}

/// The memory of a worker, in bytes.
fn memory(args: &ClusterUpArgs) -> Option<usize> {
    let half = freestone::Options::default().memory_limit.map(|bytes| bytes / 2);
    args.worker_memory.or_else(|| half.map(|bytes| bytes / args.workers))
}
