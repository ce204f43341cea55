//! The address of a server and the options of a connection, from one line of text.

use std::path::PathBuf;

use crate::error::{Result, WireError};
use crate::sender::Preference;

/// The default port of servers.
pub const PORT: u16 = 5577;
/// The user of an address without one, which is the user of a server without a file of users.
pub const USER: &str = "freestone";
/// The default of the largest chunk that clients accept, in bytes. Raasveldt and Mühleisen 2017, section 3.2, find no
/// gain above it.
pub const CHUNK_BYTES: usize = 1 << 20;
/// The default of the largest row to which clients agree, in bytes: the largest chunk of servers.
pub const ROW_BYTES: usize = 64 << 20;

/// Where the server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    #[allow(missing_docs)]
    /// A host and port.
    Tcp { host: String, port: u16 },
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// The protection of a TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// TLS, with a certificate for the host. The default, except for this machine's own addresses.
    Require,
    /// No TLS. Passwords are not sent in this case either, but everything else can be read on the way.
    Disable,
}

/// An address with its options.
#[derive(Clone)]
pub struct Address {
    /// Where the server listens.
    pub endpoint: Endpoint,
    /// The user's name.
    pub user: String,
    /// The user's password; empty if there is none.
    pub password: String,
    /// Whether and how the connection is encrypted.
    pub tls: Tls,
    /// A PEM file of certificates to trust, instead of the system's.
    pub tls_ca: Option<PathBuf>,
    /// The largest chunk in bytes.
    pub chunk_bytes_max: usize,
    /// The largest chunk of one row to which the client agrees, in bytes, if a row does not fit the largest chunk.
    pub row_bytes_max: usize,
    /// The number of threads that decode one result.
    pub threads: usize,
    /// The number of streams that carry results.
    pub streams: usize,
    /// Whether several streams preserve the order of rows.
    pub ordered: bool,
    /// Whether to use shared memory on one machine.
    pub shared_memory: bool,
    /// The timeout for connecting, in seconds.
    pub connect_timeout_s: u64,
    /// The client's description of itself.
    pub client: String,
    /// How uploads are encoded.
    pub upload: Preference,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Address").field("endpoint", &self.endpoint).field("user", &self.user).finish_non_exhaustive()
    }
}

impl Address {
    /// An address with default options.
    pub fn new(endpoint: Endpoint, user: &str, password: &str) -> Self {
        let tls = match &endpoint {
            Endpoint::Tcp { host, .. } if !is_loopback(host) => Tls::Require,
            _ => Tls::Disable,
        };
        Self {
            endpoint,
            user: user.into(),
            password: password.into(),
            tls,
            tls_ca: None,
            chunk_bytes_max: CHUNK_BYTES,
            row_bytes_max: ROW_BYTES,
            threads: std::thread::available_parallelism().map_or(2, usize::from),
            streams: 1,
            ordered: true,
            shared_memory: true,
            connect_timeout_s: 10,
            client: concat!("freestone-wire ", env!("CARGO_PKG_VERSION")).into(),
            upload: Preference::Measured,
        }
    }

    /// Parses `freestone://user:password@host:port?options` or `freestone+unix://user:password@/path?options`, in which
    /// `%xx` represents any byte. The default user is [`USER`]. The options are `tls` (`require` or `disable`),
    /// `tls_ca`, `chunk_size`, `row_size`, `threads`, `streams`, `ordered`, `shared_memory` and `connect_timeout`.
    ///
    /// # Errors
    /// `Config` if a part or an option is not valid.
    ///
    /// ```
    /// # use freestone_wire::address::{Address, Endpoint, Tls};
    /// let address = Address::parse("freestone://ann:p%40ss@db.example:4000?streams=4").unwrap();
    /// assert_eq!(address.endpoint, Endpoint::Tcp { host: "db.example".into(), port: 4000 });
    /// assert_eq!((address.password.as_str(), address.streams, address.tls), ("p@ss", 4, Tls::Require));
    /// assert!(Address::parse("freestone://ann@db.example?sterams=4").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self> {
        let wrong =
            |what: &str| WireError::Config(format!("{what} in an address like freestone://user:password@host:port"));
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("no ://"))?;
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (login, place) = place.rsplit_once('@').unwrap_or(("", place));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let user = if user.is_empty() { USER } else { user };
        let endpoint = match scheme {
            "freestone" => parse_host(place.trim_end_matches('/')).ok_or_else(|| wrong("no host or port"))?,
            "freestone+unix" if place.starts_with('/') => Endpoint::Unix(unescape(place)?.into()),
            "freestone+unix" => return Err(wrong("no absolute path of a socket")),
            other => return Err(wrong(&format!("unknown scheme {other}"))),
        };
        let mut address = Self::new(endpoint, &unescape(user)?, &unescape(password)?);
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            address.set(name, &unescape(value)?)?;
        }
        Ok(address)
    }

    /// The address with the password of the environment variable `FREESTONE_PASSWORD`, if it has none.
    pub fn with_password_of_environment(mut self) -> Self {
        if self.password.is_empty() {
            self.password = std::env::var("FREESTONE_PASSWORD").unwrap_or_default();
        }
        self
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let wrong = || WireError::Config(format!("option {name} cannot be {value:?}"));
        let number = |least: usize, most: usize| {
            value.parse().ok().filter(|n: &usize| (least..=most).contains(n)).ok_or_else(wrong)
        };
        let truth = || match value {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(wrong()),
        };
        match name {
            "tls" => {
                self.tls = match value {
                    "require" => Tls::Require,
                    "disable" => Tls::Disable,
                    _ => return Err(wrong()),
                }
            }
            "tls_ca" => self.tls_ca = Some(value.into()),
            "chunk_size" => self.chunk_bytes_max = number(2 << 10, 1 << 30)?,
            "row_size" => self.row_bytes_max = number(2 << 10, u32::MAX as usize)?,
            "threads" => self.threads = number(1, 256)?,
            "streams" => self.streams = number(1, 64)?,
            "ordered" => self.ordered = truth()?,
            "shared_memory" => self.shared_memory = truth()?,
            "connect_timeout" => self.connect_timeout_s = number(1, 3600)? as u64,
            _ => {
                let known =
                    "tls, tls_ca, chunk_size, row_size, threads, streams, ordered, shared_memory, connect_timeout";
                return Err(WireError::Config(format!("unknown option {name}; the options are {known}")));
            }
        }
        Ok(())
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

fn parse_host(place: &str) -> Option<Endpoint> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, port.strip_prefix(':'))
        }
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let port = port.map_or(Some(PORT), |port| port.parse().ok())?;
    (!host.is_empty()).then(|| Endpoint::Tcp { host: host.into(), port })
}

fn unescape(text: &str) -> Result<String> {
    let wrong = || WireError::Config("a % in an address that two hexadecimal digits of UTF-8 do not follow".into());
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or("").as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).ok_or_else(wrong)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let parse = |text: &str| Address::parse(text).unwrap();
        let tcp = |host: &str, port| Endpoint::Tcp { host: host.into(), port };
        assert_eq!(parse("freestone://localhost").endpoint, tcp("localhost", PORT));
        assert_eq!(parse("freestone://localhost").tls, Tls::Disable);
        assert_eq!(parse("freestone://a:b@[::1]:80/").endpoint, tcp("::1", 80));
        assert_eq!(parse("freestone://db?tls=disable&chunk_size=4096").chunk_bytes_max, 4096);
        assert_eq!(parse("freestone+unix://u@/run/f.sock").endpoint, Endpoint::Unix("/run/f.sock".into()));
        for wrong in [
            "localhost",
            "http://x",
            "freestone://",
            "freestone://x:port",
            "freestone+unix://x",
            "freestone://x?tls=maybe",
            "freestone://x?chunk_size=1",
            "freestone://a%4@x",
        ] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
        assert!(!format!("{:?}", parse("freestone://a:secret@x")).contains("secret"));
    }
}
