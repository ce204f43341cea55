//! Options of databases: their names and values, and the location of the database that they specify.

use std::collections::BTreeMap;
use std::path::PathBuf;

use adbc_core::error::Result;
use adbc_core::options::{OptionDatabase, OptionValue};
use freestone::{Options, Strings, parse_size};
use freestone_wire::address::Address;

use crate::error::{engine, invalid, not_found, wire};

/// The databases that an option applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionScope {
    /// Databases in this process and on servers.
    Any,
    /// Databases in this process.
    Embedded,
    /// Databases on servers.
    Server,
}

/// The options of databases. Those for servers, except the name, are parameters of their addresses.
pub const DATABASE_OPTIONS: [(&str, OptionScope); 19] = [
    ("uri", OptionScope::Any),
    ("path", OptionScope::Embedded),
    ("username", OptionScope::Server),
    ("password", OptionScope::Server),
    ("freestone.read_only", OptionScope::Embedded),
    ("freestone.threads", OptionScope::Any),
    ("freestone.memory_limit", OptionScope::Embedded),
    ("freestone.cache_size", OptionScope::Embedded),
    ("freestone.spill_directory", OptionScope::Embedded),
    ("freestone.pmem", OptionScope::Embedded),
    ("freestone.string_views", OptionScope::Any),
    ("freestone.tls", OptionScope::Server),
    ("freestone.tls_ca", OptionScope::Server),
    ("freestone.chunk_size", OptionScope::Server),
    ("freestone.row_size", OptionScope::Server),
    ("freestone.streams", OptionScope::Server),
    ("freestone.ordered", OptionScope::Server),
    ("freestone.shared_memory", OptionScope::Server),
    ("freestone.connect_timeout", OptionScope::Server),
];

const PREFIX: &str = "freestone.";
const MEMORY: &str = ":memory:";

/// The location of a database, and how it is opened.
pub enum Target {
    /// A database in the memory of this process.
    Memory(Options),
    /// A database folder, opened in this process.
    Folder(PathBuf, Options),
    /// A server's address.
    Server(Box<Address>),
}

/// The options as set by the caller.
pub struct DatabaseOptions {
    values: BTreeMap<String, OptionValue>,
}

impl DatabaseOptions {
    /// The options, with names that were checked.
    ///
    /// # Errors
    ///
    /// An option is unknown.
    pub fn new(given: impl IntoIterator<Item = (OptionDatabase, OptionValue)>) -> Result<Self> {
        let mut values = BTreeMap::new();
        for (key, value) in given {
            known(key.as_ref())?;
            values.insert(key.as_ref().to_owned(), value);
        }
        Ok(DatabaseOptions { values })
    }

    /// The value that was set for an option.
    ///
    /// # Errors
    ///
    /// The option is unknown, was not set, or is a password.
    pub fn get(&self, name: &str) -> Result<&OptionValue> {
        known(name)?;
        let value = self.values.get(name).filter(|_| name != "password");
        value.ok_or_else(|| not_found(format!("option {name} was not given")))
    }

    fn text(&self, name: &str) -> Result<Option<String>> {
        self.values.get(name).map(|value| text(name, value)).transpose()
    }

    /// The form of strings in results.
    ///
    /// # Errors
    ///
    /// The value of the option is not a boolean.
    pub fn strings(&self) -> Result<Strings> {
        Ok(Strings::views(self.truth("freestone.string_views")?.unwrap_or(false)))
    }

    fn truth(&self, name: &str) -> Result<Option<bool>> {
        self.values.get(name).map(|value| truth(name, value)).transpose()
    }

    /// The location that the options specify.
    ///
    /// # Errors
    ///
    /// An option does not apply to this kind of database, or its value is invalid.
    pub fn target(&self) -> Result<Target> {
        let place = match (self.text("uri")?, self.text("path")?) {
            (Some(_), Some(_)) => return Err(invalid("uri and path both say where the database is; give one of them")),
            (uri, path) => uri.or(path).unwrap_or_else(|| MEMORY.to_owned()),
        };
        let scheme = place.split_once("://").map(|(scheme, _)| scheme);
        match scheme {
            Some("freestone" | "freestone+unix") => {
                self.server(&place).map(|address| Target::Server(Box::new(address)))
            }
            Some("file") => self.embedded(place.strip_prefix("file://").unwrap_or(&place)),
            Some("s3" | "gs" | "az") => self.embedded(&place),
            Some(other) => Err(invalid(format!(
                "uri: unknown scheme {other}; give a folder, {MEMORY}, freestone://user:password@host:port or \
                 freestone+unix://user:password@/path"
            ))),
            None => self.embedded(&place),
        }
    }

    fn embedded(&self, place: &str) -> Result<Target> {
        self.refuse(OptionScope::Server, "servers, and this database is in this process")?;
        let mut options = Options::default();
        if let Some(value) = self.values.get("freestone.threads") {
            options.threads = number("freestone.threads", value, 1, 1024)?;
        }
        if let Some(limit) = self.size("freestone.memory_limit")? {
            options.memory_limit = Some(limit);
        }
        if let Some(bytes) = self.size("freestone.cache_size")? {
            options.cache_bytes = bytes;
        }
        options.spill_directory = self.text("freestone.spill_directory")?.map(PathBuf::from);
        options.read_only = self.truth("freestone.read_only")?.unwrap_or(false);
        options.pmem_emulated = self.text("freestone.pmem")?.map(|text| text.parse().map_err(invalid)).transpose()?;
        match place {
            MEMORY if options.read_only => {
                Err(invalid("a database in memory starts empty, so it cannot be read-only; name a folder"))
            }
            MEMORY => Ok(Target::Memory(options)),
            "" => Err(invalid(format!("the database's path is empty; name a folder, or give {MEMORY}"))),
            folder => Ok(Target::Folder(folder.into(), options)),
        }
    }

    fn size(&self, name: &str) -> Result<Option<usize>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        parse_size(&text).map(Some).map_err(|error| invalid(format!("{name}: {}", engine(error).message)))
    }

    /// The address of a server, from the text and the options that are set in addition to it.
    fn server(&self, place: &str) -> Result<Address> {
        self.refuse(OptionScope::Embedded, "databases in this process, and this one is a server's")?;
        let mut text = place.to_owned();
        let options = DATABASE_OPTIONS.iter().filter_map(|(name, _)| Some((*name, name.strip_prefix(PREFIX)?)));
        for (name, short) in options.filter(|(name, _)| *name != "freestone.string_views") {
            if let Some(value) = self.text(name)? {
                let mark = if text.contains('?') { '&' } else { '?' };
                text.push_str(&format!("{mark}{short}={}", escape(&value)));
            }
        }
        let mut address = Address::parse(&text).map_err(wire)?;
        if let Some(user) = self.text("username")? {
            address.user = user;
        }
        if let Some(password) = self.text("password")? {
            address.password = password;
        }
        address.client = concat!("freestone-adbc ", env!("CARGO_PKG_VERSION")).into();
        Ok(address)
    }

    fn refuse(&self, whose: OptionScope, of: &str) -> Result<()> {
        let wrong = DATABASE_OPTIONS.iter().find(|(name, who)| *who == whose && self.values.contains_key(*name));
        match wrong {
            Some((name, _)) => Err(invalid(format!("option {name} is one of {of}"))),
            None => Ok(()),
        }
    }
}

/// Checks that databases have an option of this name.
///
/// # Errors
///
/// They do not.
pub fn known(name: &str) -> Result<()> {
    match DATABASE_OPTIONS.iter().any(|(known, _)| *known == name) {
        true => Ok(()),
        false => Err(unknown("a database", name, DATABASE_OPTIONS.iter().map(|(known, _)| *known))),
    }
}

/// The error of an unknown option.
pub fn unknown<'a>(whose: &str, name: &str, names: impl IntoIterator<Item = &'a str>) -> adbc_core::error::Error {
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    not_found(format!("{whose} has no option {name}; the options are {names}"))
}

/// A value as text. Numbers may be passed as numbers.
///
/// # Errors
///
/// The value is of another type.
pub fn text(name: &str, value: &OptionValue) -> Result<String> {
    match value {
        OptionValue::String(text) => Ok(text.clone()),
        OptionValue::Int(number) => Ok(number.to_string()),
        _ => Err(invalid(format!("option {name} takes text"))),
    }
}

/// A value as a boolean.
///
/// # Errors
///
/// The value is neither `true` nor `false`.
pub fn truth(name: &str, value: &OptionValue) -> Result<bool> {
    match text(name, value)?.as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        other => Err(invalid(format!("option {name} is true or false, not {other:?}"))),
    }
}

fn number(name: &str, value: &OptionValue, least: usize, most: usize) -> Result<usize> {
    let text = text(name, value)?;
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| invalid(format!("option {name} is a number from {least} to {most}, not {text:?}")))
}

/// A value, escaped for an address: everything except letters and digits as `%xx`.
fn escape(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02x}"),
    };
    text.bytes().map(byte).collect()
}
