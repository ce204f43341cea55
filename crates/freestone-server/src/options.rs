//! The server's configuration, and the checks that it is safe.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use freestone_wire::Preference;

use crate::error::{Result, ServerError};

/// The options of `freestone serve`.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    /// The address of Freestone wire: `host:port`, a port, or `unix:/path`. A protocol without an address is not
    /// served. If no protocol has one, Freestone wire is served at its default address.
    pub listen: Option<String>,
    /// The address of PostgreSQL's protocol.
    pub pg: Option<String>,
    /// The address of Arrow Flight SQL.
    pub flight: Option<String>,
    /// The address of the console for browsers, over HTTP.
    pub http: Option<String>,
    /// Browsers log in by a code, each of which is for one login, instead of a password.
    pub one_time_code: bool,
    /// The address of the metrics.
    pub metrics: Option<String>,
    /// The users file.
    pub users: Option<PathBuf>,
    /// Everybody may log in, with all rights. Only loopback addresses are allowed with it.
    pub no_auth: bool,
    /// The PEM file with the certificate and its chain.
    pub tls_cert: Option<PathBuf>,
    /// The PEM file with the key of the certificate.
    pub tls_key: Option<PathBuf>,
    /// The limits for clients.
    pub limits: Limits,
}

/// The limits for clients.
/// The maximum number of connections that have logged in.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The maximum number of connections that have logged in.
    pub connections: usize,
    /// The number of these connections that are reserved for admins, so that they can log in when all others are taken.
    pub reserved: usize,
    /// The maximum number of connections that have not logged in yet. They are counted separately.
    pub logins: usize,
    /// The maximum time from a statement's start to its last row.
    pub statement: Option<Duration>,
    /// The maximum time between two requests of a connection.
    pub idle: Option<Duration>,
    /// The maximum time in which a client reads none of the bytes that are sent to it.
    pub write: Option<Duration>,
    /// The maximum bytes of memory for the queries of one session.
    pub query_memory: Option<usize>,
    /// The maximum bytes of memory for results that is shared with clients. `None` means an eighth of the machine's
    /// memory.
    pub shared_memory: Option<usize>,
    /// The maximum time from accepting a connection to the end of its authentication, even if the client sends bytes.
    pub startup: Duration,
    /// The time for running statements to end after the server is told to stop.
    pub grace: Duration,
    /// How Freestone wire encodes results: in the fastest form by measurement, or in a fixed form, for experiments.
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

/// Parses an address to listen on: `host:port`, or a port of the loopback interface.
///
/// # Errors
///
/// The text is not an address, or its name has none.
pub fn address(text: &str) -> Result<SocketAddr> {
    let text = if text.parse::<u16>().is_ok() { format!("127.0.0.1:{text}") } else { text.to_owned() };
    let found = text.to_socket_addrs().map_err(|error| {
        ServerError::new(format!("{text} is not an address to listen on: {error}"))
            .with_hint("write it as 127.0.0.1:5432, [::1]:5432 or localhost:5432; port 0 picks a free one")
    })?;
    // If a name has several addresses, a public one is used, so that the server is not mistaken for one on loopback.
    let mut found: Vec<SocketAddr> = found.collect();
    found.sort_by_key(|address| (is_loopback(address.ip()), address.is_ipv6()));
    found.into_iter().next().ok_or_else(|| ServerError::new(format!("{text} resolves to no address")))
}

/// Whether an address belongs to the loopback interface.
pub fn is_loopback(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
    }
}

/// Refuses a public address of metrics.
pub(crate) fn check_metrics(address: SocketAddr) -> Result<()> {
    if is_loopback(address.ip()) {
        return Ok(());
    }
    Err(ServerError::new(format!("metrics on the public address {address} would be open to everybody"))
        .with_hint("serve them on a loopback address, behind a proxy of your own"))
}

impl ServerOptions {
    /// Refuses configurations that are open to others without protection. Called before the server listens.
    pub(crate) fn check(&self, addresses: &[SocketAddr], metrics: Option<SocketAddr>) -> Result<()> {
        if self.no_auth && self.users.is_some() {
            return Err(ServerError::new("--no-auth and --users exclude each other"));
        }
        if self.one_time_code
            && (self.no_auth || self.users.is_some() || addresses.iter().any(|a| !is_loopback(a.ip())))
        {
            return Err(ServerError::new("one-time codes are for the only user of a server on a loopback address"));
        }
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return Err(ServerError::new("TLS needs a certificate and its key")
                .with_hint("give both --tls-cert FILE and --tls-key FILE"));
        }
        metrics.map_or(Ok(()), check_metrics)?;
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
