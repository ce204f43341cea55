//! A server in this process, for tests of its protocols.
#![allow(dead_code)]

use std::path::PathBuf;
use std::sync::Arc;

use freestone::{Database, Options};
use freestone_server::{Plan, Role, ServerOptions, Users};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub const PASSWORD: &str = "a secret";

/// A running server with the users ann (admin), wes (write) and rita (read).
pub struct TestServer {
    pub addresses: Vec<String>,
    pub database: Arc<Database>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
    _folder: TempDir,
}

impl TestServer {
    pub async fn start(options: ServerOptions) -> TestServer {
        let folder = tempfile::tempdir().expect("a folder");
        let users = users_file(&folder);
        let options = ServerOptions { users: Some(users), ..options };
        let plan = Plan::of(options).expect("a plan");
        let database = Database::in_memory(Options { threads: 2, ..Options::default() }).expect("a database");
        let workers = tokio::runtime::Handle::current();
        let server = plan.bind(database.clone(), workers).await.expect("a server");
        let addresses = server.addresses();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(server.run(async move {
            let _ = stopped.await;
        }));
        TestServer { addresses, database, stop: Some(stop), task, _folder: folder }
    }

    /// Host and port of a protocol.
    pub fn address(&self, scheme: &str) -> &str {
        let prefix = format!("{scheme}://");
        self.addresses.iter().find_map(|address| address.strip_prefix(&prefix)).expect("an address")
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
