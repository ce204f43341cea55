//! `freestone serve`: opens a database and serves it until a signal arrives.

use std::sync::Arc;
use std::time::Duration;

use freestone::Database;
use freestone::cluster::KnownWorkers;
use freestone_cluster::{Cluster, ClusterOptions};
use freestone_server::log::{self, Detail, LogFormat};
use freestone_server::{Limits, Plan, Server, ServerError, ServerOptions};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::ServeArgs;
use crate::failure::{Failure, note};

/// The number of threads that serve connections. Statements have other threads.
const CONNECTION_THREADS: usize = 2;
/// The number of threads that may block in addition to one for each connection.
const BLOCKING_THREADS: usize = 512;
/// The time after which a thread without a statement ends, which returns the memory that the allocator keeps for it.
const IDLE_THREAD: Duration = Duration::from_secs(2);
/// The time for threads to end.
const PATIENCE: Duration = Duration::from_secs(1);

pub fn run(args: ServeArgs) -> Result<(), Failure> {
    let plan = prepare(&args)?;
    let database = crate::open(args.db.as_deref(), &args.engine)?;
    run_on(&args, plan, database)
}

/// Starts the log, and checks the options.
pub fn prepare(args: &ServeArgs) -> Result<Plan, Failure> {
    let options = options(args);
    start_log(&args.log_format);
    Ok(Plan::of(options)?)
}

/// Starts the log of a server or a worker.
pub fn start_log(format: &str) {
    log::start(if format == "json" { LogFormat::Json } else { LogFormat::Text }, Detail::Events);
}

/// Serves an open database.
pub fn run_on(args: &ServeArgs, plan: Plan, database: Arc<Database>) -> Result<(), Failure> {
    serve_with(plan, database, cluster_options(args), |server| {
        if let Some(password) = server.password() {
            note(format_args!("user: freestone"));
            note(format_args!("password: {password}"));
        }
        for address in server.addresses() {
            note(format_args!("listening: {address}"));
        }
    })
}

/// What the server needs to know of its workers, if it has any.
fn cluster_options(args: &ServeArgs) -> Option<ClusterOptions> {
    let (hosts, token_file) = (args.cluster.clone()?, args.token_file.clone()?);
    let tls = args.tls_cert.clone().zip(args.tls_key.clone());
    Some(ClusterOptions { hosts, token_file, ca: args.cluster_ca.clone(), listen: args.cluster_listen.clone(), tls })
}

/// Makes the workers known to the database, and says which ones are not ready.
async fn open_cluster(options: ClusterOptions, database: &Database) -> Result<Arc<Cluster>, Failure> {
    let cluster = Cluster::new(options, database).await?;
    cluster.watch().await;
    if let Some(address) = cluster.address() {
        note(format_args!("listening: {address}"));
    }
    for worker in cluster.states().iter().filter(|worker| worker.state != "ready") {
        let reason = worker.reason.as_deref().unwrap_or("no reason is known");
        note(format_args!("worker {} is {}: {reason}", worker.address, worker.state));
    }
    database.set_workers(cluster.clone());
    Ok(cluster)
}

/// Serves a database until a signal arrives. `announce` tells the user where, as soon as the addresses are open.
pub fn serve(plan: Plan, database: Arc<Database>, announce: impl FnOnce(&Server)) -> Result<(), Failure> {
    serve_with(plan, database, None, announce)
}

/// The same, with workers.
fn serve_with(
    plan: Plan,
    database: Arc<Database>,
    cluster: Option<ClusterOptions>,
    announce: impl FnOnce(&Server),
) -> Result<(), Failure> {
    if let Some(limit) = database.options().memory_limit.filter(|_| database.folder().is_some()) {
        // The process has no other task. The tables of a database in memory are not part of its limit.
        freestone::limit_heap(limit);
    }
    on_threads(database.options().threads, plan.connections(), async |statements| {
        // The signal handler is installed before the addresses are printed, so that from then on a signal stops the
        // server properly.
        let stop = stop_signal()?;
        let plan = match cluster {
            None => plan,
            Some(options) => {
                let cluster = open_cluster(options, &database).await?;
                plan.with_metrics(Box::new(move || cluster.metrics()))
            }
        };
        let server = plan.bind(database, statements).await?;
        announce(&server);
        server.run(stop).await;
        Ok(())
    })
}

/// Runs what serves connections, of which `waiting` may wait at a time. Statements have so many threads of their own, whose handle
/// it is given.
pub fn on_threads(
    threads: usize,
    waiting: usize,
    serving: impl AsyncFnOnce(Handle) -> Result<(), Failure>,
) -> Result<(), Failure> {
    crate::threads::check(threads + CONNECTION_THREADS)
        .map_err(|error| Failure::error(format!("cannot start threads: {error}")))?;
    let workers = runtime(threads, waiting)?;
    let connections = runtime(CONNECTION_THREADS, waiting)?;
    let served = connections.block_on(serving(workers.handle().clone()));
    connections.shutdown_timeout(PATIENCE);
    workers.shutdown_timeout(PATIENCE);
    served
}

fn options(args: &ServeArgs) -> ServerOptions {
    let defaults = Limits::default();
    let limits = Limits {
        connections: args.max_connections.unwrap_or(defaults.connections),
        statement: args.statement_timeout,
        idle: args.idle_timeout,
        write: args.write_timeout.or(defaults.write),
        startup: args.login_timeout.unwrap_or(defaults.startup),
        query_memory: args.query_memory,
        shared_memory: args.shared_memory,
        forms: args.wire_forms,
        ..defaults
    };
    ServerOptions {
        listen: args.listen.clone(),
        pg: args.pg.clone(),
        flight: args.flight.clone(),
        http: args.http.clone(),
        one_time_code: false,
        metrics: args.metrics.clone(),
        users: args.users.clone(),
        no_auth: args.no_auth,
        tls_cert: args.tls_cert.clone(),
        tls_key: args.tls_key.clone(),
        limits,
    }
}

/// A runtime on so many threads. Changes of rows wait for others, and for the disk, on threads of their own: no number of
/// them that connections can cause may keep others from running.
fn runtime(threads: usize, connections: usize) -> Result<Runtime, Failure> {
    let built = Builder::new_multi_thread()
        .worker_threads(threads.max(1))
        .thread_stack_size(freestone::THREAD_STACK_BYTES)
        .thread_keep_alive(IDLE_THREAD)
        .max_blocking_threads(connections.saturating_add(BLOCKING_THREADS))
        .enable_all()
        .build();
    built.map_err(|error| Failure::error(format!("cannot start threads: {error}")))
}

/// Completes at SIGTERM or SIGINT.
pub fn stop_signal() -> Result<impl Future<Output = ()>, Failure> {
    let failed = |error: std::io::Error| Failure::error(format!("cannot watch for signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        Failure::Error { message: error.to_string(), excerpt: None, hint: error.hint().map(str::to_owned) }
    }
}
