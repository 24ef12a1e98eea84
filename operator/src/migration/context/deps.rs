//! What every task needs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use kube::runtime::events::Reporter;

use super::hold_lock::HoldLock;
use crate::migration::report::metrics::Metrics;

/// What every task needs.
#[derive(Clone)]
pub struct Deps {
    /// Client of the cluster.
    pub client: kube::Client,
    /// What `client` was made from; the kube-apiservers are reached one by one with it.
    pub config: kube::Config,
    /// Who publishes events about the `ReportsServer`.
    pub reporter: Reporter,
    /// Step metrics; see [`Metrics::register`].
    pub metrics: Arc<Metrics>,
    /// Keeps groups from getting in each other's way.
    pub hold_lock: HoldLock,
    /// The operator's own namespace: its `ConfigMap` of notes lives there.
    pub namespace: String,
    /// Where hosts of databases are, for an operator outside of the cluster; see
    /// [`database::ConnectOptions::resolve`].
    pub resolve: BTreeMap<String, SocketAddr>,
}
