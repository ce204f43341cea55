//! How the server is configured, and what it refuses to be.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use freestone_wire::Preference;

use crate::error::{Result, ServerError};

/// What `freestone serve` is told.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    /// Addresses of the protocols; those that are `None` are not served. Where all are, Freestone wire is, at its own.
    pub listen: Option<String>,
    pub pg: Option<String>,
    pub flight: Option<String>,
    pub metrics: Option<String>,
    pub users: Option<PathBuf>,
    /// Serve anybody, on loopback addresses alone.
    pub no_auth: bool,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub limits: Limits,
}

/// What clients may use.
#[derive(Debug, Clone)]
pub struct Limits {
    pub connections: usize,
    /// Of these, places that admins alone may take: when all others are taken they can still see why.
    pub reserved: usize,
    /// The maximum number of connections that have not logged in yet. They are counted separately.
    pub logins: usize,
    /// From a statement's start to its last row.
    pub statement: Option<Duration>,
    /// Between two requests of a connection.
    pub idle: Option<Duration>,
    /// How long a client may take nothing of what is sent to it.
    pub write: Option<Duration>,
    /// Bytes that one session's queries may hold in memory.
    pub query_memory: Option<usize>,
    /// Bytes that results may take in memory that is shared with their clients; an eighth of the machine's where it is not said.
    pub shared_memory: Option<usize>,
    /// From accepting a connection to the end of its authentication, whatever the client says meanwhile.
    pub startup: Duration,
    /// How long running statements may go on once the server is told to stop.
    pub grace: Duration,
    /// How Freestone wire encodes results: as is measured to be the fastest, but for experiments.
    pub forms: Preference,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 1000,
            reserved: 3,
            logins: 200,
            statement: None,
            idle: None,
            write: Some(Duration::from_secs(300)),
            query_memory: None,
            shared_memory: None,
            startup: Duration::from_secs(10),
            grace: Duration::from_secs(10),
            forms: Preference::Measured,
        }
    }
}

/// An address to listen on, from `host:port` or a port alone, which is one of the loopback interface.
pub fn address(text: &str) -> Result<SocketAddr> {
    let text = if text.parse::<u16>().is_ok() { format!("127.0.0.1:{text}") } else { text.to_owned() };
    let found = text.to_socket_addrs().map_err(|error| {
        ServerError::new(format!("{text} is not an address to listen on: {error}"))
            .with_hint("write it as 127.0.0.1:5432, [::1]:5432 or localhost:5432; port 0 picks a free one")
    })?;
    // Of a name's addresses a public one counts: it must not be taken for loopback.
    let mut found: Vec<SocketAddr> = found.collect();
    found.sort_by_key(|address| (is_loopback(address.ip()), address.is_ipv6()));
    found.into_iter().next().ok_or_else(|| ServerError::new(format!("{text} resolves to no address")))
}

pub fn is_loopback(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
    }
}

impl ServerOptions {
    /// Refuses what would be open to others: before anything listens.
    pub(crate) fn check(&self, addresses: &[SocketAddr], metrics: Option<SocketAddr>) -> Result<()> {
        if self.no_auth && self.users.is_some() {
            return Err(ServerError::new("--no-auth and --users exclude each other"));
        }
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return Err(ServerError::new("TLS needs a certificate and its key")
                .with_hint("give both --tls-cert FILE and --tls-key FILE"));
        }
        if let Some(metrics) = metrics.filter(|address| !is_loopback(address.ip())) {
            return Err(ServerError::new(format!(
                "metrics on the public address {metrics} would be open to everybody"
            ))
            .with_hint("serve them on a loopback address, behind a proxy of your own"));
        }
        for public in addresses.iter().filter(|address| !is_loopback(address.ip())) {
            let missing = match (self.users.is_some(), self.tls_cert.is_some()) {
                (true, true) => continue,
                (false, true) => "users",
                (true, false) => "TLS",
                (false, false) => "TLS and users",
            };
            return Err(ServerError::new(format!(
                "{public} is a public address, and there is no protection: no {missing}"
            ))
            .with_hint("give --users FILE, --tls-cert FILE and --tls-key FILE, or listen on 127.0.0.1"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_loopback_unless_they_say_otherwise() {
        for (text, expected) in [
            ("5432", "127.0.0.1:5432"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("[::1]:7", "[::1]:7"),
            ("0.0.0.0:1", "0.0.0.0:1"),
        ] {
            assert_eq!(address(text).expect(text).to_string(), expected);
        }
        for text in ["", "x", "1.2.3.4", "127.0.0.1:99999", "no such host:1"] {
            assert!(address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn public_addresses_need_users_and_tls() {
        let public: SocketAddr = "0.0.0.0:1".parse().expect("an address");
        let local: SocketAddr = "[::1]:1".parse().expect("an address");
        let file = || Some(PathBuf::from("x"));
        let options = |users: bool, tls: bool, no_auth: bool| ServerOptions {
            users: users.then(file).flatten(),
            tls_cert: tls.then(file).flatten(),
            tls_key: tls.then(file).flatten(),
            no_auth,
            ..ServerOptions::default()
        };
        for (users, tls, no_auth, address, passes) in [
            (false, false, false, local, true),
            (false, false, true, local, true),
            (true, false, true, local, false),
            (true, true, false, public, true),
            (true, false, false, public, false),
            (false, true, false, public, false),
            (false, true, true, public, false),
        ] {
            let checked = options(users, tls, no_auth).check(&[address], None);
            assert_eq!(checked.is_ok(), passes, "{users} {tls} {no_auth} {address}");
        }
        assert!(options(true, true, false).check(&[local], Some(public)).is_err());
    }
}
