//! The settings that the server is given: by its options, or by the `ConfigMap` that the operator
//! writes.

use std::collections::BTreeSet;

use anyhow::bail;
use tokio::sync::watch;

use crate::cluster::{Followers, parse_groups, parse_users, watch_groups};
use crate::config::Config;
use crate::telemetry::LogLevel;

/// The settings of the server, as they are given or change.
pub struct Told {
    /// The groups to serve.
    pub groups: watch::Receiver<Option<BTreeSet<String>>>,
    /// The users whose writes are refused.
    pub refused_writers: watch::Receiver<BTreeSet<String>>,
    /// True when requests of direct clients are logged.
    pub audit: watch::Receiver<bool>,
}

/// Returns what the server is told, and the work that keeps it up to date, the level of the logs
/// included.
///
/// # Errors
/// If neither a `ConfigMap` nor groups are given.
pub fn follow(
    config: &Config,
    log_level: LogLevel,
    client: &kube::Client,
) -> anyhow::Result<(Told, impl Future<Output = ()> + Send + use<>)> {
    if config.config_map.is_none() && config.groups.is_none() {
        bail!("no API groups to serve; give --config-map or --groups");
    }
    let (groups, served) = watch::channel(config.groups.as_deref().map(parse_groups));
    let refused = config.refused_writers.as_deref().unwrap_or_default();
    let (refused_writers, refused) = watch::channel(parse_users(refused));
    let (auditing, audit) = watch::channel(config.audit_direct_clients);
    let (level, wanted) = watch::channel(None);
    let followers = Followers {
        groups,
        refused_writers,
        log_level: level,
        audit: auditing,
    };
    let (client, map) = (client.clone(), config.config_map.clone());
    let work = async move {
        let watching = async move {
            if let Some(map) = map {
                watch_groups(client, map, followers).await;
            }
        };
        tokio::join!(watching, log_level.follow(wanted));
    };
    let told = Told {
        groups: served,
        refused_writers: refused,
        audit,
    };
    Ok((told, work))
}
