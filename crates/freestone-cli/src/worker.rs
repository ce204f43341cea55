//! `freestone worker`: opens a database for reading and runs tasks until a signal arrives.

use std::io::Read;

use freestone_cluster::{ClusterError, VERSION, Worker, WorkerOptions};
use freestone_server::MetricsAddress;
use tokio::sync::oneshot;

use crate::args::{EngineArgs, WorkerArgs};
use crate::failure::{Failure, note};
use crate::serve::{on_threads, start_log, stop_signal};

/// Threads that may block for tasks: they plan on some.
const TASKS: usize = 256;

pub fn run(args: WorkerArgs) -> Result<(), Failure> {
    start_log(&args.log_format);
    let engine = EngineArgs {
        memory_limit: args.memory_limit,
        threads: args.threads,
        read_only: true,
        pmem: None,
        pmem_size: None,
        umask: None,
        cache: args.cache.clone(),
    };
    let database = crate::open(Some(&args.store), &engine)?;
    if let Some(limit) = database.options().memory_limit {
        freestone::limit_heap(limit);
    }
    let threads = database.options().threads;
    let options = options(&args);
    on_threads(threads, TASKS, async |tasks| {
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
        let worker = Worker::bind(options, database, tasks).await?;
        if let Some(address) = &args.metrics {
            let metrics = MetricsAddress::bind(address, Box::new(worker.metrics())).await?;
            note(format_args!("listening: {}", metrics.address()));
            tokio::spawn(metrics.serve());
        }
        note(format_args!("listening: {}", worker.address()));
        worker.run(stop).await;
        Ok(())
    })
}

fn options(args: &WorkerArgs) -> WorkerOptions {
    WorkerOptions {
        listen: args.listen.clone(),
        token_file: args.token_file.clone(),
        tls: args.tls_cert.clone().zip(args.tls_key.clone()),
        join: args.join.clone(),
        ca: args.ca.clone(),
        advertise: args.advertise.clone(),
        version: VERSION.to_owned(),
    }
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
