//! The API groups that are served, the users who may not write to them, and what is logged: a
//! `ConfigMap` that the operator writes, watched.

use std::collections::BTreeSet;
use std::str::FromStr;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::sync::watch;

/// Key of the `ConfigMap` that holds the groups, separated by commas.
pub const GROUPS_KEY: &str = "groups";

/// Key of the `ConfigMap` that holds the refused writers, separated by commas.
pub const REFUSED_WRITERS_KEY: &str = "refusedWriters";

/// Key of the `ConfigMap` that holds the level of the logs.
pub const LOG_LEVEL_KEY: &str = "logLevel";

/// Key of the `ConfigMap` that is `true` where requests of direct clients are logged.
pub const AUDIT_KEY: &str = "auditDirectClients";

/// The name of a `ConfigMap`: `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMapRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// A text that is not `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not of the form NAMESPACE/NAME")]
pub struct ConfigMapRefError(String);

impl FromStr for ConfigMapRef {
    type Err = ConfigMapRefError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((namespace, name))
                if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
            {
                Ok(Self {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err(ConfigMapRefError(text.to_owned())),
        }
    }
}

/// Returns the groups in a comma-separated list. Our own control API, the core group and groups
/// without a dot (the kube-apiserver's own) are passed over with a warning: they can never be
/// served here.
#[must_use]
pub fn parse_groups(text: &str) -> BTreeSet<String> {
    let (groups, refused): (BTreeSet<_>, BTreeSet<_>) = text
        .split([',', '\n'])
        .map(str::trim)
        .filter(|group| !group.is_empty())
        .map(str::to_owned)
        .partition(|group| group.contains('.') && group != crds::control::GROUP);
    for group in refused {
        tracing::warn!(group, "this API group cannot be served and is skipped");
    }
    groups
}

/// Returns the users in a comma-separated list.
#[must_use]
pub fn parse_users(text: &str) -> BTreeSet<String> {
    let users = text.split([',', '\n']).map(str::trim);
    users
        .filter(|user| !user.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The content of the `ConfigMap`, for those who follow it.
pub struct Followers {
    /// The groups to serve.
    pub groups: watch::Sender<Option<BTreeSet<String>>>,
    /// Users whose writes are refused whatever their rights: the servers that groups were taken
    /// over from, some of which delete reports when they start.
    pub refused_writers: watch::Sender<BTreeSet<String>>,
    /// The level of the logs; nothing where the `ConfigMap` names none.
    pub log_level: watch::Sender<Option<String>>,
    /// True when requests of direct clients are logged.
    pub audit: watch::Sender<bool>,
}

/// Keeps what followers want to know up to date for as long as it is polled. While the `ConfigMap`
/// is missing the last known groups stay in force, so that a mistake in it does not end the
/// service.
pub async fn watch_groups(client: Client, source: ConfigMapRef, followers: Followers) {
    let Followers {
        groups,
        refused_writers,
        log_level,
        audit,
    } = followers;
    let ConfigMapRef { namespace, name } = &source;
    let api: Api<ConfigMap> = Api::namespaced(client, namespace);
    let mut seen = Box::pin(watcher::watch_object(api, name).default_backoff());
    while let Some(event) = seen.next().await {
        let mut data = match event {
            Ok(map) => map.and_then(|map| map.data).unwrap_or_default(),
            Err(error) => {
                tracing::warn!(%error, "watching ConfigMap {namespace}/{name}: trying again");
                continue;
            }
        };
        let Some(text) = data.remove(GROUPS_KEY) else {
            tracing::warn!(
                "ConfigMap {namespace}/{name} or its key {GROUPS_KEY} is missing; the last \
                 known API groups stay in force"
            );
            continue;
        };
        let refused = data.remove(REFUSED_WRITERS_KEY).unwrap_or_default();
        refused_writers.send_replace(parse_users(&refused));
        log_level.send_replace(data.remove(LOG_LEVEL_KEY));
        audit.send_replace(data.get(AUDIT_KEY).is_some_and(|audit| audit == "true"));
        let new = parse_groups(&text);
        groups.send_if_modified(|old| {
            let changed = old.as_ref() != Some(&new);
            if changed {
                tracing::info!(groups = ?new, "API groups to serve");
                *old = Some(new);
            }
            changed
        });
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", &[])]
    #[case("wgpolicyk8s.io", &["wgpolicyk8s.io"])]
    #[case(" b.io,a.io ,, b.io\nc.io", &["a.io", "b.io", "c.io"])]
    #[case("apps,control.reports-server.io,a.io", &["a.io"])]
    fn reads_groups(#[case] text: &str, #[case] expected: &[&str]) {
        assert_eq!(
            parse_groups(text)
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>(),
            expected
        );
    }

    #[rstest]
    #[case("a/b", true)]
    #[case("a", false)]
    #[case("/b", false)]
    #[case("a/", false)]
    #[case("a/b/c", false)]
    fn reads_references(#[case] text: &str, #[case] good: bool) {
        assert_eq!(text.parse::<ConfigMapRef>().is_ok(), good);
    }
}
