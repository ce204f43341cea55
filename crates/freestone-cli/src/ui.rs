//! `freestone ui`: the console for one user, in the browser of this machine.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use freestone_server::log::{self, Detail, LogFormat};
use freestone_server::{Limits, Plan, Server, ServerOptions};

use crate::args::{EngineArgs, UiArgs};
use crate::failure::{Failure, note};
use crate::{MEMORY, new_database, serve};

/// The ports of databases: below those that systems give to programs which ask for any.
const PORTS: Range<u16> = 20_000..30_000;
/// Connections of the one user: browsers open a few for each window.
const CONNECTIONS: usize = 128;
/// The time for running statements to end after Ctrl-C.
const GRACE: Duration = Duration::from_millis(500);

pub fn run(args: UiArgs) -> Result<(), Failure> {
    let folder = args.db.as_deref().filter(|path| *path != Path::new(MEMORY));
    let engine = EngineArgs { read_only: folder.is_some() && !args.write, ..args.engine.clone() };
    if let Some(folder) = folder.filter(|_| engine.read_only)
        && new_database::is_new(folder)?
    {
        let message = format!("there is no database {}", folder.display());
        return Err(Failure::with_hint(message, "correct the path, or give --write, which creates it"));
    }
    log::start(LogFormat::Text, Detail::Warnings);
    // A page that pauses keeps its place in the rows for as long as its user wants.
    let limits = Limits { connections: CONNECTIONS, write: None, grace: GRACE, ..Limits::default() };
    let http = Some(address(args.port, folder));
    let options = ServerOptions { http, one_time_code: true, limits, ..ServerOptions::default() };
    let plan = Plan::of(options)?;
    let database = crate::open(args.db.as_deref(), &engine)?;
    serve::serve(plan, database, |server| announce(server, !args.no_open))
}

/// An address of this machine, which others cannot reach: with the port that is asked for, otherwise with the database's own. Browsers
/// keep scripts and history by address, so a database has the same one whenever it can.
fn address(asked: Option<u16>, folder: Option<&Path>) -> String {
    let port = asked.unwrap_or_else(|| {
        let own = port_of(folder.map(resolved).as_deref());
        if TcpListener::bind((Ipv4Addr::LOCALHOST, own)).is_ok() {
            return own;
        }
        note(format_args!(
            "port {own} is in use: on another one the browser shows other scripts and another history (--port chooses one)"
        ));
        0
    });
    format!("{}:{port}", Ipv4Addr::LOCALHOST)
}

/// The port of a database by its path, by the hash FNV-1a; `None`: in memory.
fn port_of(folder: Option<&Path>) -> u16 {
    let bytes = folder.unwrap_or(Path::new(MEMORY)).as_os_str().as_encoded_bytes();
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    PORTS.start + (hash % PORTS.len() as u64) as u16
}

/// The path of a folder from the root, also before it exists. Names that are no paths of this machine stay as they are.
fn resolved(folder: &Path) -> PathBuf {
    let in_parent = || {
        let parent = folder.parent().map(|parent| if parent == Path::new("") { Path::new(".") } else { parent })?;
        Some(parent.canonicalize().ok()?.join(folder.file_name()?))
    };
    folder.canonicalize().ok().or_else(in_parent).unwrap_or_else(|| folder.to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_that_of_the_folder() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = parent.path().join("sales");
        let before = resolved(&folder);
        std::fs::create_dir(&folder).expect("a folder");
        assert_eq!(resolved(&folder), before, "a folder has the same path before it exists");
        assert_eq!(resolved(&folder.join("..").join("sales")), before);
        assert_eq!(resolved(Path::new("s3://bucket/sales")), Path::new("s3://bucket/sales"));
        // The values of FNV-1a are the same in every version of this program.
        assert_eq!(port_of(Some(Path::new("a"))), 20_000 + (0xaf63_dc4c_8601_ec8c_u64 % 10_000) as u16);
        let ports = (0..1000).map(|number| port_of(Some(&parent.path().join(number.to_string()))));
        let ports: std::collections::BTreeSet<u16> = ports.collect();
        assert!(ports.iter().all(|port| PORTS.contains(port)));
        // Of names that differ in their last characters only, some have the same port.
        assert!(ports.len() > 500, "{} of 1000 databases have a port of their own", ports.len());
    }

    #[test]
    fn a_port_in_use_is_left_alone() {
        assert_eq!(address(Some(8080), None), "127.0.0.1:8080");
        let folder = tempfile::tempdir().expect("a folder");
        let own = format!("127.0.0.1:{}", port_of(Some(&resolved(folder.path()))));
        let held = TcpListener::bind(&own);
        assert_eq!(address(None, Some(folder.path())), "127.0.0.1:0", "{held:?}");
        if held.is_ok() {
            drop(held);
            assert_eq!(address(None, Some(folder.path())), own);
        }
    }
}
