//! The server, from a checked configuration to its shutdown.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use freestone::Database;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::authority::Authority;
use crate::descriptors;
use crate::error::{Result, ServerError};
use crate::flight::Flight;
use crate::http::{self, Http, OneTimeCode};
use crate::metrics::{MetricsSource, More};
use crate::options::{self, ServerOptions};
use crate::pg::Postgres;
use crate::protocol::Protocol;
use crate::scram;
use crate::shared::Shared;
use crate::tls;
use crate::traces::{self, Traces};
use crate::users::{LONE_USER, Role, Users};
use crate::wire::socket::{self, Socket};
use crate::wire::{self, Wire};

/// The default address of the Freestone protocol.
const DEFAULT_ADDRESS: &str = "127.0.0.1:5577";

/// The time for connections to end after their statements were cancelled, in seconds.
const END_SECONDS: u64 = 5;

/// A valid configuration: users and certificate are read and addresses are known, but the server does not listen yet.
pub struct Plan {
    options: ServerOptions,
    protocols: Vec<(Box<dyn Protocol>, SocketAddr)>,
    /// The path of a socket for the Freestone protocol.
    socket: Option<PathBuf>,
    metrics: Option<SocketAddr>,
    users: Option<Users>,
    password: Option<String>,
    tls: Option<Arc<rustls::ServerConfig>>,
    code: Option<Arc<OneTimeCode>>,
    more: More,
    traces: Option<traces::Settings>,
}

impl Plan {
    /// Checks a configuration, and OpenTelemetry's environment variables.
    ///
    /// # Errors
    ///
    /// The configuration is invalid or unsafe, or a file cannot be read.
    pub fn of(options: ServerOptions) -> Result<Plan> {
        let mut protocols: Vec<(Box<dyn Protocol>, SocketAddr)> = vec![];
        let is_asked = options.pg.is_some() || options.flight.is_some() || options.http.is_some();
        let socket = options.listen.as_deref().map(socket::path).transpose()?.flatten();
        let listen = options.listen.as_deref().or((!is_asked).then_some(DEFAULT_ADDRESS));
        if let Some(text) = listen.filter(|_| socket.is_none()) {
            protocols.push((Box::new(Wire), options::address(text)?));
        }
        if let Some(text) = &options.pg {
            protocols.push((Box::new(Postgres), options::address(text)?));
        }
        if let Some(text) = &options.flight {
            protocols.push((Box::new(Flight), options::address(text)?));
        }
        let code = options.one_time_code.then(|| Arc::new(OneTimeCode::new()));
        if let Some(text) = &options.http {
            let certificate = options.tls_cert.as_deref().map(tls::certificate).transpose()?;
            let http = Http { name: http::name_of(text), certificate, code: code.clone() };
            protocols.push((Box::new(http), options::address(text)?));
        }
        let metrics = options.metrics.as_deref().map(options::address).transpose()?;
        let addresses: Vec<SocketAddr> = protocols.iter().map(|(_, address)| *address).collect();
        options.check(&addresses, metrics)?;
        let tls = match (&options.tls_cert, &options.tls_key) {
            (Some(certificate), Some(key)) => Some(tls::load(certificate, key)?),
            _ => None,
        };
        let (users, password) = users(&options)?;
        let traces = traces::Settings::of(|name| std::env::var(name).ok())?;
        Ok(Plan { options, protocols, socket, metrics, users, password, tls, code, more: More::default(), traces })
    }

    /// The number of connections that may be logged in.
    pub fn connections(&self) -> usize {
        self.options.limits.connections
    }

    /// Shows more metrics, which follow the server's own.
    pub fn with_metrics(self, source: MetricsSource) -> Plan {
        Plan { more: More(Some(source)), ..self }
    }

    /// Opens the addresses. Statements run on `workers`, and connections on the calling runtime.
    ///
    /// # Errors
    ///
    /// An address cannot be opened.
    pub async fn bind(self, database: Arc<Database>, workers: Handle) -> Result<Server> {
        let mut listeners = vec![];
        for (protocol, address) in self.protocols {
            let (listener, address) = bind(address).await?;
            listeners.push((protocol, listener, address));
        }
        let socket = self.socket.as_deref().map(Socket::bind).transpose()?;
        let metrics = match self.metrics {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        descriptors::provide(self.options.limits.connections);
        let authority = Authority::new(self.users, self.options.users.clone());
        // Spans are sent by the runtime of the connections, which busy workers do not delay.
        let (traces, sending) = match self.traces {
            Some(settings) => {
                let (traces, waiting) = Traces::new(&settings);
                let traces = Arc::new(traces);
                (Some(traces.clone()), Some(tokio::spawn(traces::export(traces, waiting, settings))))
            }
            None => (None, None),
        };
        let shared = Shared::new(database, authority, self.tls, self.options.limits, workers, self.more, traces);
        Ok(Server { shared, listeners, socket, metrics, password: self.password, code: self.code, sending })
    }
}

/// The users of the file; without a file, one user with a random password; or `None` if anybody may log in.
fn users(options: &ServerOptions) -> Result<(Option<Users>, Option<String>)> {
    if let Some(path) = &options.users {
        let users = Users::load(path)?;
        if users.is_empty() {
            return Err(ServerError::file("users file", path, "holds no user")
                .with_hint(format!("add one: freestone user add NAME --role admin --users {}", path.display())));
        }
        return Ok((Some(users), None));
    }
    if options.no_auth {
        return Ok((None, None));
    }
    let (mut users, password) = (Users::default(), scram::random_text());
    users.add(LONE_USER, Role::Admin, &password)?;
    Ok((Some(users), Some(password)))
}

/// An open address of metrics, for a process that serves nothing else over HTTP.
pub struct MetricsAddress {
    listener: TcpListener,
    address: SocketAddr,
    source: MetricsSource,
}

impl MetricsAddress {
    /// Opens the address: a loopback one, or a port of it.
    ///
    /// # Errors
    ///
    /// The address is invalid, public or not free.
    pub async fn bind(address: &str, source: MetricsSource) -> Result<MetricsAddress> {
        let address = options::address(address)?;
        options::check_metrics(address)?;
        let (listener, address) = bind(address).await?;
        Ok(MetricsAddress { listener, address, source })
    }

    /// Where the metrics are, such as `http://127.0.0.1:9187/metrics`.
    pub fn address(&self) -> String {
        metrics_address(self.address)
    }

    /// Serves them as long as this is polled.
    pub async fn serve(self) {
        http::serve_metrics(self.listener, self.source).await;
    }
}

fn metrics_address(at: SocketAddr) -> String {
    format!("http://{at}/metrics")
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let failed = |error: std::io::Error| {
        ServerError::new(format!("cannot listen on {address}: {error}"))
            .with_hint("another process may use the address; port 0 picks a free one")
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// A server with open addresses.
pub struct Server {
    shared: Arc<Shared>,
    listeners: Vec<(Box<dyn Protocol>, TcpListener, SocketAddr)>,
    socket: Option<Socket>,
    metrics: Option<(TcpListener, SocketAddr)>,
    password: Option<String>,
    code: Option<Arc<OneTimeCode>>,
    /// What sends traces.
    sending: Option<JoinHandle<()>>,
}

impl Server {
    /// The addresses of all protocols, such as `postgres://127.0.0.1:5432`. That of the metrics is the last one.
    pub fn addresses(&self) -> Vec<String> {
        let protocols = self.listeners.iter().map(|(protocol, _, at)| format!("{}://{at}", protocol.scheme()));
        let protocols = protocols.chain(self.socket.iter().map(Socket::address));
        protocols.chain(self.metrics.iter().map(|(_, at)| metrics_address(*at))).collect()
    }

    /// The password of the user `freestone`, if it was generated for this run.
    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// The code with which a browser logs in, if there is one. It is for one login, after which there is another one.
    pub fn code(&self) -> Option<watch::Receiver<String>> {
        self.code.as_ref().map(|code| code.watch())
    }

    /// Serves until `stop` completes. Then running statements have some time to finish, and the others are cancelled.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Server { shared, listeners, socket, metrics, sending, .. } = self;
        let metrics = metrics.map(|(listener, _)| {
            let metrics = shared.metrics.clone();
            tokio::spawn(http::serve_metrics(listener, move || metrics.text()))
        });
        let watching = tokio::spawn({
            let shared = shared.clone();
            async move { shared.watch_access().await }
        });
        let mut protocols = JoinSet::new();
        for (protocol, listener, _) in listeners {
            let shared = shared.clone();
            protocols.spawn(async move { protocol.serve(listener, shared).await });
        }
        if let Some(socket) = socket {
            protocols.spawn(wire::serve_socket(socket, shared.clone()));
        }
        stop.await;
        tracing::info!("stopping: running statements may finish");
        shared.stop();
        let all = async { while protocols.join_next().await.is_some() {} };
        tokio::pin!(all);
        if tokio::time::timeout(shared.limits.grace, &mut all).await.is_err() {
            tracing::warn!("cancelling the statements that still run");
            shared.sessions.cancel_all();
            let _ = tokio::time::timeout(Duration::from_secs(END_SECONDS), &mut all).await;
        }
        watching.abort();
        if let Some(metrics) = metrics {
            metrics.abort();
        }
        if let (Some(traces), Some(sending)) = (&shared.traces, sending) {
            traces.close();
            let _ = tokio::time::timeout(Duration::from_secs(END_SECONDS), sending).await;
        }
        tracing::info!("stopped");
    }
}
