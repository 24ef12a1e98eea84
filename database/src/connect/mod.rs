//! The opening of a connection.

mod attempt;
mod error;
mod options;

use std::net::{IpAddr, SocketAddr};

use tokio::time::timeout;
use tokio_postgres::Client;

use crate::parameters::{Endpoint, Host, Parameters};
use crate::{ConnectionTask, Session};

pub use error::{AttemptError, ConnectError, Reason, Role};
pub use options::ConnectOptions;

/// Connects, and has a task carry the messages. The task ends with the client.
///
/// # Errors
/// See [`establish`].
pub async fn connect(
    parameters: &Parameters,
    options: &ConnectOptions,
) -> Result<(Client, ConnectionTask), ConnectError> {
    Ok(establish(parameters, options).await?.spawn())
}

/// Connects to each host in turn, and to each address of a host, until one will do. As with libpq,
/// a host that refuses the role ends the search: the others would be asked with the same password.
///
/// # Errors
/// [`ConnectError`] with what was wrong at every address that was tried, when none will do within
/// [`ConnectOptions::total_timeout`].
pub async fn establish(
    parameters: &Parameters,
    options: &ConnectOptions,
) -> Result<Session, ConnectError> {
    let mut failed = Vec::new();
    match timeout(
        options.total_timeout,
        search(parameters, options, &mut failed),
    )
    .await
    {
        Ok(Some(session)) => return Ok(session),
        Ok(None) => {}
        Err(_) => failed.push(AttemptError {
            place: parameters.address(),
            reason: Reason::TimedOut(options.total_timeout),
        }),
    }
    Err(ConnectError { attempts: failed })
}

async fn search(
    parameters: &Parameters,
    options: &ConnectOptions,
    failed: &mut Vec<AttemptError>,
) -> Option<Session> {
    for endpoint in &parameters.hosts {
        let addresses = match addresses(endpoint, options).await {
            Ok(addresses) => addresses,
            Err(reason) => {
                let place = endpoint.to_string();
                failed.push(AttemptError { place, reason });
                continue;
            }
        };
        for address in addresses {
            let at = attempt::Target {
                endpoint,
                port: port(endpoint, options),
                address,
            };
            let tried = attempt::attempt(parameters, options, &at).await;
            let reason = match tried {
                Ok(session) => return Some(session),
                Err(reason) => reason,
            };
            let ends = reason.ends_search();
            let place = place(endpoint, address);
            failed.push(AttemptError { place, reason });
            if ends {
                return None;
            }
        }
    }
    None
}

/// Returns the addresses of a host; for a Unix socket one without an address.
async fn addresses(
    endpoint: &Endpoint,
    options: &ConnectOptions,
) -> Result<Vec<Option<IpAddr>>, Reason> {
    let Host::Tcp(host) = &endpoint.host else {
        return Ok(vec![None]);
    };
    if let Some(place) = options.resolve.get(host) {
        return Ok(vec![Some(place.ip())]);
    }
    if let Ok(address) = host.parse() {
        return Ok(vec![Some(address)]);
    }
    let lookup = tokio::net::lookup_host((host.as_str(), endpoint.port));
    let found = match timeout(options.attempt_timeout, lookup).await {
        Ok(Ok(found)) => found
            .map(|at: SocketAddr| Some(at.ip()))
            .collect::<Vec<_>>(),
        Ok(Err(error)) => return Err(Reason::Lookup(error)),
        Err(_) => return Err(Reason::TimedOut(options.attempt_timeout)),
    };
    if found.is_empty() {
        let none = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
        return Err(Reason::Lookup(none));
    }
    Ok(found)
}

fn port(endpoint: &Endpoint, options: &ConnectOptions) -> u16 {
    let Host::Tcp(host) = &endpoint.host else {
        return endpoint.port;
    };
    let elsewhere = options.resolve.get(host);
    elsewhere.map_or(endpoint.port, SocketAddr::port)
}

fn place(endpoint: &Endpoint, address: Option<IpAddr>) -> String {
    match (address, &endpoint.host) {
        (Some(address), Host::Tcp(host)) if host.parse() != Ok(address) => {
            format!("{endpoint} ({address})")
        }
        _ => endpoint.to_string(),
    }
}
