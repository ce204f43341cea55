//! Databases: a folder, memory, or the address of a server.

use std::sync::Arc;

use adbc_core::Optionable;
use adbc_core::error::Result;
use adbc_core::options::{OptionConnection, OptionDatabase, OptionValue};
use freestone::{Database, Strings};
use freestone_wire::Threads;
use freestone_wire::address::Address;

use crate::connection::FreestoneConnection;
use crate::error::{engine, internal, not_found, state};
use crate::options::{DatabaseOptions, Target, known};

/// A database, opened in this process or on a server. Connections remain valid after it is dropped.
pub struct FreestoneDatabase {
    pub(crate) place: Place,
    pub(crate) threads: Arc<Threads>,
    pub(crate) strings: Strings,
    options: DatabaseOptions,
}

pub(crate) enum Place {
    Embedded(Arc<Database>),
    Server(Box<Address>),
}

impl FreestoneDatabase {
    pub(crate) fn open(given: impl IntoIterator<Item = (OptionDatabase, OptionValue)>) -> Result<Self> {
        let options = DatabaseOptions::new(given)?;
        let strings = options.strings()?;
        let (place, threads) = match options.target()? {
            Target::Memory(options) => {
                let threads = options.threads;
                (Place::Embedded(Database::in_memory(options).map_err(engine)?), threads)
            }
            Target::Folder(folder, options) => {
                let threads = options.threads;
                (Place::Embedded(Database::open(folder, options).map_err(engine)?), threads)
            }
            // These threads read and write. Rows are decoded on other threads.
            Target::Server(address) => {
                let threads = address.streams.min(4);
                (Place::Server(address), threads)
            }
        };
        let threads = Threads::start("freestone-adbc", threads);
        let threads = threads.map_err(|error| internal(format!("cannot start threads: {error}")))?;
        Ok(FreestoneDatabase { place, threads, strings, options })
    }
}

impl Optionable for FreestoneDatabase {
    type Option = OptionDatabase;

    fn set_option(&mut self, key: OptionDatabase, _: OptionValue) -> Result<()> {
        known(key.as_ref())?;
        Err(state(format!("option {} cannot be changed: the database is open", key.as_ref())))
    }

    fn get_option_string(&self, key: OptionDatabase) -> Result<String> {
        crate::options::text(key.as_ref(), self.options.get(key.as_ref())?)
    }

    fn get_option_bytes(&self, key: OptionDatabase) -> Result<Vec<u8>> {
        self.get_option_string(key).map(String::into_bytes)
    }

    fn get_option_int(&self, key: OptionDatabase) -> Result<i64> {
        let text = self.get_option_string(key.clone())?;
        text.parse().map_err(|_| not_found(format!("option {} is no number", key.as_ref())))
    }

    fn get_option_double(&self, key: OptionDatabase) -> Result<f64> {
        let text = self.get_option_string(key.clone())?;
        text.parse().map_err(|_| not_found(format!("option {} is no number", key.as_ref())))
    }
}

impl adbc_core::Database for FreestoneDatabase {
    type ConnectionType = FreestoneConnection;

    fn new_connection(&self) -> Result<FreestoneConnection> {
        self.new_connection_with_opts([])
    }

    fn new_connection_with_opts(
        &self,
        options: impl IntoIterator<Item = (OptionConnection, OptionValue)>,
    ) -> Result<FreestoneConnection> {
        FreestoneConnection::open(self, options)
    }
}
