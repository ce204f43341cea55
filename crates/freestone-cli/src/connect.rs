//! Connects to the database that the command line names: a folder, object storage, memory, or the address of a server.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::CommandFactory;
use clap::error::ErrorKind;
use freestone_wire::WireError;
use freestone_wire::address::{Address, Endpoint};
use freestone_wire::blocking::Client;
use freestone_wire::sqlstate;

use crate::args::{Cli, EngineArgs};
use crate::backend::Backend;
use crate::failure::Failure;
use crate::new_database::{self, NewDatabase};
use crate::user;

/// A session, and the name of its database in the shell.
pub struct Connected {
    pub backend: Backend,
    pub name: String,
    /// The number of threads that execute statements in this process.
    pub threads: usize,
    /// The database, if this process has created it.
    pub new: Option<NewDatabase>,
    /// The folder of the database, if it is in one.
    pub folder: Option<PathBuf>,
}

/// Ends the process with a usage error if the options do not fit the database, or its address is wrong.
pub fn check_usage(db: Option<&Path>, args: &EngineArgs) {
    if let Some(text) = db.and_then(address_text)
        && let Err(message) = address(text, args)
    {
        Cli::command().error(ErrorKind::ArgumentConflict, message).exit();
    }
}

/// Opens a database of this process, or connects to a server.
pub fn connect(db: Option<&Path>, args: &EngineArgs) -> Result<Connected, Failure> {
    let Some(text) = db.and_then(address_text) else {
        let is_bucket = |path: &Path| path.to_str().is_some_and(freestone::is_bucket);
        let folder = db.filter(|path| *path != Path::new(crate::MEMORY) && !is_bucket(path));
        let is_new = folder.map_or(Ok(false), new_database::is_new)?;
        let database = crate::open(db, args)?;
        let new = folder.filter(|_| is_new).and_then(|folder| NewDatabase::new(folder, &database));
        let name = db.and_then(Path::file_name).filter(|name| *name != crate::MEMORY);
        let name = name.map_or("memory".into(), |name| name.to_string_lossy().into_owned());
        let threads = database.options().threads;
        let folder = folder.map(Path::to_owned);
        let backend = Backend::Embedded(Arc::new(database.session()));
        return Ok(Connected { backend, name, threads, new, folder });
    };
    let address = address(text, args).map_err(Failure::error)?;
    let name = place(&address.endpoint);
    let threads = address.threads;
    let client = log_in(address.with_password_of_environment())?;
    Ok(Connected { backend: Backend::Remote(Arc::new(client)), name, threads, new: None, folder: None })
}

/// The text of the address of a server. It has a scheme, which the path of a folder does not have, and none of those of object
/// storage.
pub fn address_text(db: &Path) -> Option<&str> {
    db.to_str().filter(|text| text.contains("://") && !freestone::is_bucket(text))
}

/// The address of a server, or what is wrong with it.
fn address(text: &str, args: &EngineArgs) -> Result<Address, String> {
    refuse_engine_options(args)?;
    Address::parse(text).map_err(|error| error.to_string())
}

/// These options are settings of the server.
fn refuse_engine_options(args: &EngineArgs) -> Result<(), String> {
    let given = [
        ("--read-only", args.read_only),
        ("--memory-limit", args.memory_limit.is_some()),
        ("--threads", args.threads.is_some()),
        ("--pmem", args.pmem.is_some()),
        ("--pmem-size", args.pmem_size.is_some()),
        ("--umask", args.umask.is_some()),
        ("--cache", args.cache.cache.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => {
            Err(format!("{option} is for a database folder: on a server it is an option of `freestone serve`"))
        }
    }
}

fn place(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Tcp { host, port } => format!("{host}:{port}"),
        Endpoint::Unix(path) => path.display().to_string(),
    }
}

/// Connects. Asks for the password if the address has none and the server requires one.
fn log_in(mut address: Address) -> Result<Client, Failure> {
    let has_password = !address.password.is_empty();
    match Client::connect_to(address.clone()) {
        Err(error) if is_refusal(&error) && !has_password => {
            if !io::stdin().is_terminal() {
                return Err(Failure::with_hint(
                    format!("{} wants a password for user {}", place(&address.endpoint), address.user),
                    "put it into the address, freestone://user:password@host:port, or into FREESTONE_PASSWORD",
                ));
            }
            address.password = user::ask(&format!("password of {}: ", address.user))?;
            Client::connect_to(address).map_err(Failure::from)
        }
        connected => connected.map_err(Failure::from),
    }
}

fn is_refusal(error: &WireError) -> bool {
    match error {
        WireError::Authentication(_) => true,
        WireError::Sql(error) => error.sqlstate == sqlstate::INVALID_PASSWORD,
        _ => false,
    }
}
