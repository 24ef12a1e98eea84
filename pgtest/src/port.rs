//! Free TCP ports.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context as _, Result};
use rand::RngExt as _;

/// The range below the ports that Linux uses for outgoing connections (32768 and up). A port among
/// those could be taken by a client while its server is down, and a client that tries to connect to
/// such a port of its own machine again and again can end up connected to itself.
const RANGE: std::ops::Range<u16> = 15_000..32_000;
const ATTEMPTS: usize = 100;

/// Returns a port of 127.0.0.1 on which nobody listens at the moment.
pub fn free() -> Result<u16> {
    listener().and_then(|listener| Ok(listener.local_addr()?.port()))
}

/// Returns a listener on such a port.
pub fn listener() -> Result<TcpListener> {
    let mut random = rand::rng();
    (0..ATTEMPTS)
        .find_map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, random.random_range(RANGE))).ok())
        .context("no free port was found on 127.0.0.1")
}
