//! Hosts and ports.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use super::{ParametersError, key};

/// The port of PostgreSQL where none is given.
pub const DEFAULT_PORT: u16 = 5432;

/// The place of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A name or an address.
    Tcp(String),
    /// The directory of a Unix socket.
    Unix(PathBuf),
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Place of the server.
    pub host: Host,
    /// Port of the server; for a Unix socket a part of the file's name.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Tcp(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Host::Tcp(host) => write!(f, "{host}:{}", self.port),
            Host::Unix(directory) => {
                write!(f, "{}/.s.PGSQL.{}", directory.display(), self.port)
            }
        }
    }
}

impl Host {
    /// Returns the host that a text means: a path is a socket's directory, brackets around an IPv6
    /// address are taken off.
    pub(super) fn parse(text: &str) -> Result<Self, ParametersError> {
        if text.starts_with('/') {
            return Ok(Self::Unix(text.into()));
        }
        let bare = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(text);
        let address = bare.contains(':');
        let fits = match bare.parse::<IpAddr>() {
            Ok(_) => true,
            Err(_) => !address && bare.bytes().all(in_a_name),
        };
        if bare.is_empty() || !fits {
            let why = format!("holds {text:?}, which is neither a host name nor an address");
            return Err(ParametersError::invalid(key::HOST, why));
        }
        Ok(Self::Tcp(bare.to_owned()))
    }
}

fn in_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._".contains(&byte)
}

/// Returns the port that a text means; empty means the usual one.
pub(super) fn port(text: &str) -> Result<u16, ParametersError> {
    if text.is_empty() {
        return Ok(DEFAULT_PORT);
    }
    text.parse().ok().filter(|port| *port != 0).ok_or_else(|| {
        let why = format!("holds {text:?}, which is not a number from 1 to 65535");
        ParametersError::invalid(key::PORT, why)
    })
}

/// Pairs hosts with ports: one port for all hosts, or one for each.
pub(super) fn pair(hosts: &str, ports: Option<&str>) -> Result<Vec<Endpoint>, ParametersError> {
    let hosts = hosts
        .split(',')
        .map(|host| Host::parse(host.trim()))
        .collect::<Result<Vec<_>, _>>()?;
    let ports = ports
        .unwrap_or_default()
        .split(',')
        .map(|text| port(text.trim()))
        .collect::<Result<Vec<_>, _>>()?;
    if ports.len() != 1 && ports.len() != hosts.len() {
        let why = format!(
            "lists {} ports for {} hosts: give one port, or one for each host",
            ports.len(),
            hosts.len()
        );
        return Err(ParametersError::invalid(key::PORT, why));
    }
    let ports = ports.iter().copied().cycle();
    Ok(hosts
        .into_iter()
        .zip(ports)
        .map(|(host, port)| Endpoint { host, port })
        .collect())
}
