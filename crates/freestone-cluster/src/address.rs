//! Addresses: where a process listens, and who the workers of a cluster are.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use crate::error::{ClusterError, Result};

/// The port of workers and coordinators where an address has none.
pub const DEFAULT_PORT: u16 = 5578;

/// Who the workers of a cluster are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hosts {
    /// These.
    Named(Vec<String>),
    /// The addresses of a name, which is looked up again and again.
    Dns(String),
    /// Those that have joined.
    Join,
}

impl FromStr for Hosts {
    type Err = ClusterError;

    /// `a:5578,b`, `dns:name`, `dns:name:5578` or `join`.
    fn from_str(text: &str) -> Result<Hosts> {
        if text == "join" {
            return Ok(Hosts::Join);
        }
        if let Some(name) = text.strip_prefix("dns:") {
            return Ok(Hosts::Dns(with_port(name)?));
        }
        let mut hosts = text.split(',').map(with_port).collect::<Result<Vec<String>>>()?;
        hosts.sort();
        hosts.dedup();
        Ok(Hosts::Named(hosts))
    }
}

/// `host` or `host:port` with a port.
pub(crate) fn with_port(text: &str) -> Result<String> {
    let text = text.trim();
    let wrong = || {
        ClusterError::new(format!("`{text}` is not the address of a worker"))
            .with_hint("write HOST, HOST:PORT or [::1]:PORT, several with commas, or dns:NAME, or join")
    };
    if text.parse::<SocketAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    if let Ok(ip) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, DEFAULT_PORT).to_string());
    }
    let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    let port = port.map_or(Ok(DEFAULT_PORT), |port| port.parse::<u16>().map_err(|_| wrong()))?;
    let is_name = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    if is_name && port != 0 { Ok(format!("{host}:{port}")) } else { Err(wrong()) }
}

/// The host of `host:port`, without brackets.
pub(crate) fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Whether an address stays on this machine: then it needs no TLS. Names other than `localhost` are taken for public.
pub(crate) fn is_local(address: &str) -> bool {
    let host = host(address);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The address to listen on: `host:port`, or a port of the loopback interface.
pub(crate) fn to_listen(text: &str) -> Result<SocketAddr> {
    let full = if text.parse::<u16>().is_ok() { format!("127.0.0.1:{text}") } else { text.to_owned() };
    let found = full.to_socket_addrs().map_err(|error| {
        ClusterError::new(format!("{text} is not an address to listen on: {error}"))
            .with_hint("write it as 127.0.0.1:5578, [::1]:5578 or 0.0.0.0:5578; port 0 picks a free one")
    })?;
    // Of several, a public one, so that nobody takes it for one of this machine.
    let mut found: Vec<SocketAddr> = found.collect();
    found.sort_by_key(|address| (address.ip().is_loopback(), address.is_ipv6()));
    found.into_iter().next().ok_or_else(|| ClusterError::new(format!("{text} resolves to no address")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_named_looked_up_or_join() {
        let named = |hosts: &[&str]| Hosts::Named(hosts.iter().map(|host| (*host).to_owned()).collect());
        for (text, expected) in [
            ("b:1,a,b:1", named(&["a:5578", "b:1"])),
            ("127.0.0.1:9", named(&["127.0.0.1:9"])),
            ("::1", named(&["[::1]:5578"])),
            ("dns:workers.internal", Hosts::Dns("workers.internal:5578".into())),
            ("dns:w:77", Hosts::Dns("w:77".into())),
            ("join", Hosts::Join),
        ] {
            assert_eq!(text.parse::<Hosts>().expect(text), expected, "{text}");
        }
        for wrong in ["", "a,,b", "a:b", "a:0", "dns:", "http://a", "user:secret@host:1", "a:70000"] {
            assert!(wrong.parse::<Hosts>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_loopback_is_local() {
        for (address, expected) in
            [("127.0.0.1:5", true), ("[::1]:5", true), ("localhost:5", true), ("10.0.0.1:5", false), ("a:5", false)]
        {
            assert_eq!(is_local(address), expected, "{address}");
        }
    }
}
