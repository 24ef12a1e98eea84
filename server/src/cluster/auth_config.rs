//! The front proxy's CA and headers, watched.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::sync::watch;

use crate::auth::FrontProxyConfig;

/// Namespace of the `ConfigMap` that every aggregated API server reads.
pub const AUTH_NAMESPACE: &str = "kube-system";
/// Name of the `ConfigMap`.
pub const AUTH_CONFIG_MAP: &str = "extension-apiserver-authentication";

/// Interval of reports that the configuration is missing.
const COMPLAINT_INTERVAL: Duration = Duration::from_mins(1);

/// Keeps `config` up to date for as long as it is polled; `loaded` turns true with the first
/// configuration. One that cannot be read leaves the one in force.
pub async fn watch_front_proxy(
    client: Client,
    config: Arc<ArcSwap<FrontProxyConfig>>,
    loaded: watch::Sender<bool>,
) {
    let api: Api<ConfigMap> = Api::namespaced(client, AUTH_NAMESPACE);
    let mut seen = Box::pin(watcher::watch_object(api, AUTH_CONFIG_MAP).default_backoff());
    let mut complained: Option<tokio::time::Instant> = None;
    while let Some(event) = seen.next().await {
        let problem = match event {
            Ok(Some(map)) => match FrontProxyConfig::parse(&map.data.unwrap_or_default()) {
                Ok(new) => {
                    if !new.is_enabled() {
                        tracing::warn!("the kube-apiserver runs without a front proxy CA");
                    }
                    config.store(Arc::new(new));
                    loaded.send_replace(true);
                    continue;
                }
                Err(error) => error.to_string(),
            },
            Ok(None) => "it does not exist".to_owned(),
            Err(error) => error.to_string(),
        };
        let due = complained.is_none_or(|at| at.elapsed() >= COMPLAINT_INTERVAL);
        if due {
            complained = Some(tokio::time::Instant::now());
            tracing::warn!(
                problem,
                "cannot read ConfigMap {AUTH_NAMESPACE}/{AUTH_CONFIG_MAP}; requests through the \
                 kube-apiserver are checked against what was read last"
            );
        }
    }
}
