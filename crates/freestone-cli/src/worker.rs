//! `freestone worker`: opens a database for reading and runs tasks until a signal arrives.

use std::io::Read;
use std::path::PathBuf;

use freestone_cluster::{ClusterError, VERSION, Worker, WorkerOptions};
use freestone_server::log::{self, Detail, LogFormat};
use tokio::sync::oneshot;

use crate::args::{EngineArgs, WorkerArgs};
use crate::failure::{Failure, note};
use crate::serve::{CONNECTION_THREADS, PATIENCE, runtime, stop_signal};

/// Threads that may block for tasks: they plan on some.
const TASKS: usize = 256;

pub fn run(args: WorkerArgs) -> Result<(), Failure> {
    let format = if args.log_format == "json" { LogFormat::Json } else { LogFormat::Text };
    log::start(format, Detail::Events);
    let engine = EngineArgs {
        memory_limit: args.memory_limit,
        threads: args.threads,
        read_only: true,
        pmem: None,
        pmem_size: None,
        umask: None,
    };
    let database = crate::open(Some(&args.store), &engine)?;
    if let Some(limit) = database.options().memory_limit {
        freestone::limit_heap(limit);
    }
    let threads = database.options().threads;
    crate::threads::check(threads + CONNECTION_THREADS)
        .map_err(|error| Failure::error(format!("cannot start threads: {error}")))?;
    let (workers, connections) = (runtime(threads, TASKS)?, runtime(CONNECTION_THREADS, TASKS)?);
    let options = options(&args);
    let served = connections.block_on(async {
        // Before the address is printed, so that from then on a signal ends the worker properly.
        let signal = stop_signal()?;
        let closed = args.until_closed.then(input_closed);
        let stop = async move {
            match closed {
                None => signal.await,
                Some(closed) => tokio::select! {
                    () = signal => {}
                    _ = closed => {}
                },
            }
        };
        let worker = Worker::bind(options, database, workers.handle().clone()).await?;
        note(format_args!("listening: {}", worker.address()));
        worker.run(stop).await;
        Ok(())
    });
    connections.shutdown_timeout(PATIENCE);
    workers.shutdown_timeout(PATIENCE);
    served
}

fn options(args: &WorkerArgs) -> WorkerOptions {
    WorkerOptions {
        listen: args.listen.clone(),
        token_file: args.token_file.clone(),
        tls: pair(args.tls_cert.clone(), args.tls_key.clone()),
        join: args.join.clone(),
        ca: args.ca.clone(),
        advertise: args.advertise.clone(),
        version: VERSION.to_owned(),
    }
}

/// A certificate with its key.
pub fn pair(certificate: Option<PathBuf>, key: Option<PathBuf>) -> Option<(PathBuf, PathBuf)> {
    certificate.zip(key)
}

/// Completes when nobody can write to standard input any more: the process that started this one has ended.
fn input_closed() -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let mut ignored = [0; 64];
        while std::io::stdin().read(&mut ignored).is_ok_and(|bytes| bytes > 0) {}
        let _ = sender.send(());
    });
    receiver
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        Failure::Error { message: error.to_string(), excerpt: None, hint: error.hint().map(str::to_owned) }
    }
}
