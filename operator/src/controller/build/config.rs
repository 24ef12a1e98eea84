//! The `ConfigMap`s that tell the server what to serve and where the database is, and the Service
//! in front of it.

use std::collections::{BTreeMap, BTreeSet};

use crds::v1alpha1::spec::PredecessorSpec;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Validated;
use super::metadata::namespaced;
use crate::names::{
    ACCEPTED_KEY, GROUPS_KEY, HISTORY_KEY, PORT_NAME, REFUSED_WRITERS_KEY, SERVICE_PORT,
};

/// Returns every group named by the user, those owned by CRDs and those that are named no more too:
/// a group on its way back is read from the server until its last report is in etcd again. A group
/// that was never taken over stays gated and unregistered.
pub(super) fn config(spec: &Validated) -> ConfigMap {
    let named = spec.apis.iter().map(|api| api.group.as_str());
    let dropped = spec.dropped.iter().map(String::as_str);
    let groups: Vec<&str> = named
        .chain(dropped)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let mut data = BTreeMap::from([(GROUPS_KEY.to_owned(), groups.join(","))]);
    let sources = spec.apis.iter().filter_map(|api| api.from.as_ref());
    let servers = sources.filter_map(|from| from.server.as_ref());
    let predecessors: BTreeSet<String> = servers.map(PredecessorSpec::user).collect();
    if !predecessors.is_empty() {
        let users: Vec<String> = predecessors.into_iter().collect();
        data.insert(REFUSED_WRITERS_KEY.to_owned(), users.join(","));
    }
    if let Some(history) = &spec.history {
        data.insert(HISTORY_KEY.to_owned(), history.clone());
    }
    ConfigMap {
        metadata: namespaced(spec, spec.names.config()),
        data: Some(data),
        ..ConfigMap::default()
    }
}

/// Returns the specification, for the time when a later one is refused.
pub(super) fn accepted(spec: &Validated) -> ConfigMap {
    let source = serde_json::to_string(&spec.source).unwrap_or_default();
    ConfigMap {
        metadata: namespaced(spec, spec.names.accepted()),
        data: Some(BTreeMap::from([(ACCEPTED_KEY.to_owned(), source)])),
        ..ConfigMap::default()
    }
}

/// Returns what is not secret about the connection to PostgreSQL; none where nothing is ours to say.
pub(super) fn connection(spec: &Validated) -> Option<ConfigMap> {
    let parameters = &spec.database.postgres()?.connection.parameters;
    let data = parameters
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.clone()));
    (!parameters.is_empty()).then(|| ConfigMap {
        metadata: namespaced(spec, spec.names.database()),
        data: Some(data.collect()),
        ..ConfigMap::default()
    })
}

pub(super) fn service(spec: &Validated) -> Service {
    Service {
        metadata: namespaced(spec, spec.names.server()),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(spec.names.selector()),
            ports: Some(vec![ServicePort {
                name: Some(PORT_NAME.to_owned()),
                port: SERVICE_PORT,
                protocol: Some("TCP".to_owned()),
                target_port: Some(IntOrString::String(PORT_NAME.to_owned())),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}
