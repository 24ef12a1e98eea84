//! The things that every task needs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use kube::runtime::events::Reporter;

use super::hold_lock::HoldLock;
use crate::leader::Term;
use crate::migration::report::metrics::Metrics;

/// The things that every task needs.
#[derive(Clone)]
pub struct Deps {
    /// Client of the cluster.
    pub client: kube::Client,
    /// The configuration of `client`; the kube-apiservers are reached one by one with it.
    pub config: kube::Config,
    /// The time for which the migration may write.
    pub term: Term,
    /// The reporter of events about the `ReportsServer`.
    pub reporter: Reporter,
    /// Step metrics; see [`Metrics::register`].
    pub metrics: Arc<Metrics>,
    /// The lock that keeps groups from getting in each other's way.
    pub hold_lock: HoldLock,
    /// The operator's own namespace: its `ConfigMap` of notes lives there.
    pub namespace: String,
    /// Addresses of hosts of databases, for an operator outside of the cluster; see
    /// [`database::ConnectOptions::resolve`].
    pub resolve: BTreeMap<String, SocketAddr>,
}
