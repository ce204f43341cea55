//! `freestone ui`: the console for one user, in the browser of this machine.

use std::path::Path;
use std::time::Duration;

use freestone_server::log::{self, Detail, LogFormat};
use freestone_server::{Limits, Plan, Server, ServerOptions};

use crate::args::{EngineArgs, UiArgs};
use crate::failure::{Failure, note};
use crate::{MEMORY, new_database, serve};

/// A free port of this machine, which others cannot reach.
const ADDRESS: &str = "127.0.0.1:0";
/// Connections of the one user: browsers open a few for each window.
const CONNECTIONS: usize = 128;
/// The time for running statements to end after Ctrl-C.
const GRACE: Duration = Duration::from_millis(500);

pub fn run(args: UiArgs) -> Result<(), Failure> {
    let folder = args.db.as_deref().filter(|path| *path != Path::new(MEMORY));
    let engine = EngineArgs { read_only: folder.is_some() && !args.write, ..args.engine };
    if let Some(folder) = folder.filter(|_| engine.read_only)
        && new_database::is_new(folder)?
    {
        let message = format!("there is no database {}", folder.display());
        return Err(Failure::with_hint(message, "correct the path, or give --write, which creates it"));
    }
    log::start(LogFormat::Text, Detail::Warnings);
    // A page that pauses keeps its place in the rows for as long as its user wants.
    let limits = Limits { connections: CONNECTIONS, write: None, grace: GRACE, ..Limits::default() };
    let options =
        ServerOptions { http: Some(ADDRESS.to_owned()), one_time_code: true, limits, ..ServerOptions::default() };
    let plan = Plan::of(options)?;
    let database = crate::open(args.db.as_deref(), &engine)?;
    serve::serve(plan, database, |server| announce(server, !args.no_open))
}

/// Prints the address, with the code with which a browser logs in, and opens it. After the login there is another code for another
/// browser, which is printed as well: who did not log in sees that somebody else did.
fn announce(server: &Server, opens: bool) {
    let (Some(address), Some(mut code)) = (server.addresses().into_iter().next(), server.code()) else { return };
    let first = with_code(&address, &code.borrow_and_update());
    note(format_args!("listening: {first}"));
    note("Ctrl-C ends it");
    if opens && let Err(error) = open::that_detached(&first) {
        note(format_args!("no browser could be opened ({error}): open the address yourself"));
    }
    tokio::spawn(async move {
        while code.changed().await.is_ok() {
            let next = with_code(&address, &code.borrow_and_update());
            note(format_args!("a browser has logged in; for another one: {next}"));
        }
    });
}

/// The address of the page with a code in its fragment, which browsers send nowhere.
fn with_code(address: &str, code: &str) -> String {
    format!("{address}/#code={code}")
}
