//! Threads inside of a cluster's network: connections that measure must not go through a tunnel.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

use anyhow::Context as _;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::runtime::{Builder, Runtime};

/// Returns a runtime whose threads, and the processes that they start, are in the network of the
/// cluster with this founder. A task that is spawned on it is inside; a future that is blocked on
/// with it is not.
///
/// # Errors
/// Without root, or when the cluster has ended.
pub fn runtime(founder: u32) -> anyhow::Result<Runtime> {
    let path = format!("/proc/{founder}/ns/net");
    let network = Arc::new(File::open(&path).with_context(|| format!("cannot open {path}"))?);
    // A thread that stays outside would only make connections fail, and loudly.
    let enter = move || {
        if let Err(error) =
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
        {
            eprintln!("bench: a thread cannot enter the cluster's network: {error}");
        }
    };
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .thread_name("bench-inside")
        .on_thread_start(enter)
        .build()
        .context("cannot start a runtime")
}
