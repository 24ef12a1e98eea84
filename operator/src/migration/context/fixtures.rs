//! A context for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::Client;
use kube::runtime::events::Reporter;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use super::Cx;
use super::deps::Deps;
use super::hold_lock::HoldLock;
use crate::leader::Term;
use crate::migration::plan::target::Owner;
use crate::migration::plan::tests as states;
use crate::migration::report::metrics::Metrics;
use crate::migration::report::publisher::StatusPublisher;
use crate::migration::report::status::GroupStatus;
use crate::migration::task::changes::Changes;

/// Returns the context of a process of the operator whose requests go to `client`. The operator's
/// namespace is `operator`.
pub fn context(client: &Client) -> Cx {
    let owner = Owner {
        name: "prod".to_owned(),
        uid: "u".to_owned(),
        api_version: "reports-server.io/v1alpha1".to_owned(),
        kind: "ReportsServer".to_owned(),
    };
    let deps = Deps {
        client: client.clone(),
        config: kube::Config::new("https://localhost".parse().unwrap()),
        term: Term::endless(),
        reporter: Reporter::from("test"),
        metrics: Arc::new(Metrics::register(&mut Registry::default())),
        hold_lock: HoldLock::default(),
        namespace: "operator".to_owned(),
        resolve: BTreeMap::new(),
    };
    let (status, _) = watch::channel(GroupStatus::default());
    let report = StatusPublisher::new(status, Changes::default(), owner.clone());
    Cx::new(deps, client.clone(), owner, states::target(), report)
}
