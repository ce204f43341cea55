//! A server in this process, and the two databases with which every test runs.

use adbc_core::error::Error;
use adbc_core::options::OptionDatabase;
use adbc_core::{Database, Driver};
use freestone::Options;
use freestone_adbc::{FreestoneConnection, FreestoneDriver};
use freestone_server::{Plan, Role, ServerOptions, Users};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub const PASSWORD: &str = "a secret/@:";

/// A running server with the users ann (admin) and rita (read).
pub struct Places {
    address: String,
    runtime: Runtime,
    stop: Option<oneshot::Sender<()>>,
    server: Option<JoinHandle<()>>,
    _folder: TempDir,
}

impl Places {
    pub fn new() -> Places {
        let folder = tempfile::tempdir().expect("a folder");
        let mut users = Users::default();
        for (name, role) in [("ann", Role::Admin), ("rita", Role::Read)] {
            users.add(name, role, PASSWORD).expect("a user");
        }
        let path = folder.path().join("users");
        users.save(&path).expect("saved");
        let options =
            ServerOptions { users: Some(path), listen: Some("127.0.0.1:0".into()), ..ServerOptions::default() };
        let plan = Plan::of(options).expect("a plan");
        let runtime = Runtime::new().expect("a runtime");
        let options = Options { threads: 2, ..Options::default() };
        let database = freestone::Database::in_memory(options).expect("a database");
        let workers = runtime.handle().clone();
        let server = runtime.block_on(plan.bind(database, workers)).expect("a server");
        let address = server.addresses().into_iter().find(|address| address.starts_with("freestone://"));
        let (stop, stopped) = oneshot::channel::<()>();
        let task = runtime.spawn(async move {
            server
                .run(async move {
                    let _ = stopped.await;
                })
                .await;
        });
        let address = address.expect("an address");
        Places { address, runtime, stop: Some(stop), server: Some(task), _folder: folder }
    }

    /// The address of the server, without a user.
    pub fn uri(&self) -> String {
        self.address.clone()
    }

    /// The address of the server, with user and password.
    pub fn login(&self) -> String {
        self.address.replace("://", "://ann:a%20secret%2f%40%3a@")
    }

    /// Runs a test with a connection to a database in memory, and with one to the server.
    pub fn each(&self, mut test: impl FnMut(&mut FreestoneConnection, &str)) {
        for uri in [":memory:", &self.login()] {
            let given = [(OptionDatabase::Uri, uri.into())];
            let database = FreestoneDriver.new_database_with_opts(given).expect("a database");
            let mut connection = database.new_connection().expect("a connection");
            test(&mut connection, uri);
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(server) = self.server.take() {
            let ended = self.runtime.block_on(server);
            assert!(std::thread::panicking() || ended.is_ok(), "the server ends");
        }
    }
}

/// The SQLSTATE of an error, as text.
pub fn sqlstate(error: &Error) -> String {
    error.sqlstate.iter().map(|c| char::from(*c as u8)).collect()
}
