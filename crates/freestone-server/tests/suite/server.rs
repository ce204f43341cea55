//! A server in this process, for tests of its protocols.

use std::path::PathBuf;
use std::time::Duration;

use freestone::{Database, Options};
use freestone_server::{Plan, Role, ServerOptions, Users};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub const PASSWORD: &str = "a secret";

/// A running server with the users ann (admin), wes (write) and rita (read).
pub struct TestServer {
    pub addresses: Vec<String>,
    /// The file of users.
    pub users: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
    _folder: TempDir,
}

impl TestServer {
    pub async fn start(options: ServerOptions) -> TestServer {
        TestServer::start_over(options, Options { threads: 2, ..Options::default() }).await
    }

    /// A server of a database with these options.
    pub async fn start_over(options: ServerOptions, of_database: Options) -> TestServer {
        let folder = tempfile::tempdir().expect("a folder");
        let users = users_file(&folder);
        let options = ServerOptions { users: (!options.no_auth).then(|| users.clone()), ..options };
        let plan = Plan::of(options).expect("a plan");
        let database = Database::in_memory(of_database).expect("a database");
        let workers = tokio::runtime::Handle::current();
        let server = plan.bind(database, workers).await.expect("a server");
        let addresses = server.addresses();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(server.run(async move {
            let _ = stopped.await;
        }));
        TestServer { addresses, users, stop: Some(stop), task, _folder: folder }
    }

    /// Host and port of a protocol.
    pub fn address(&self, scheme: &str) -> &str {
        let prefix = format!("{scheme}://");
        self.addresses.iter().find_map(|address| address.strip_prefix(&prefix)).expect("an address")
    }

    /// A value of the server's metrics, such as `statements_running`. The metrics must be enabled.
    pub async fn metric(&self, name: &str) -> f64 {
        let pages = self.addresses.iter().filter_map(|address| address.strip_prefix("http://"));
        let address = pages.filter_map(|address| address.strip_suffix("/metrics")).next().expect("the page");
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("asked");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("an answer");
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("freestone_{name} ")));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
    }

    /// Waits until a metric has the expected value.
    pub async fn until(&self, name: &str, expected: f64) {
        self.until_between(name, expected, expected).await;
    }

    /// Waits until a metric has at least and at most these values.
    pub async fn until_between(&self, name: &str, least: f64, most: f64) {
        for _ in 0..200 {
            if (least..=most).contains(&self.metric(name).await) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{name} is {} after 20 s, not {least} to {most}", self.metric(name).await);
    }

    pub async fn stop(mut self) {
        drop(self.stop.take());
        (&mut self.task).await.expect("the server ends");
    }
}

fn users_file(folder: &TempDir) -> PathBuf {
    let mut users = Users::default();
    for (name, role) in [("ann", Role::Admin), ("wes", Role::Write), ("rita", Role::Read)] {
        users.add(name, role, PASSWORD).expect("a user");
    }
    let path = folder.path().join("users");
    users.save(&path).expect("saved");
    path
}
