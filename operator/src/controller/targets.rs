//! The goal of each API group, for the migrations.

use std::collections::BTreeSet;

use crds::control;
use crds::v1alpha1::ReportsServer;
use crds::v1alpha1::spec::{ApiOwner, ApiSpec};
use crds::v1alpha1::status::MigrationPhase;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;

use super::dereference::service_ref;
use super::found::Registered;
use super::validate::Validated;
use super::workload;
use crate::apiservice;
use crate::certs::Material;
use crate::migration::{self, GroupStatus, GroupTarget};

/// The server as the migrations find it; by default there is none.
#[derive(Default)]
pub struct Serving {
    /// True when its Deployment serves.
    pub ready: bool,
    /// True when its control API is Available.
    pub control_available: bool,
    /// The authorities with which its certificate is verified (PEM).
    pub ca_bundle: Vec<u8>,
}

impl Serving {
    /// Returns the server as its objects tell; a Deployment that is missing does not serve.
    #[must_use]
    pub fn of(deployment: Option<&Deployment>, control_api: &APIService, certs: &Material) -> Self {
        Self {
            ready: deployment.is_some_and(workload::is_serving),
            control_available: apiservice::is_available(control_api),
            ca_bundle: certs.bundle().into_bytes(),
        }
    }
}

/// Returns the groups that the specification names no more and that are not back at their CRDs: an
/// APIService of theirs points to the server, or their way back has not come to its end.
#[must_use]
pub fn dropped(
    object: &ReportsServer,
    registered: &[Registered],
    groups: &[GroupStatus],
) -> BTreeSet<String> {
    let status = object.status.as_ref();
    let told = status.and_then(|status| status.migration.as_ref());
    // What another process has begun, which this one has not looked at yet.
    let told = told.into_iter().flat_map(|migration| &migration.groups);
    let told = told.map(|group| (&group.group, group.phase));
    let here = groups.iter().map(|group| (&group.group, group.phase));
    let under_way = |(group, phase)| (phase != MigrationPhase::RolledBack).then_some(group);
    let looked_at = |group: &String| groups.iter().any(|here| here.group == *group);
    let told = told.filter(|(group, _)| !looked_at(group));
    let pointed = registered.iter().map(|registered| &registered.group);
    let all = pointed.chain(here.chain(told).filter_map(under_way));
    let named = |group: &&String| object.spec.apis.iter().any(|api| api.group == **group);
    all.filter(|group| !named(group) && *group != control::GROUP)
        .cloned()
        .collect()
}

/// Returns what each group of the specification should reach; those that it names no more go back.
#[must_use]
pub fn targets(spec: &Validated, server: &Serving, suspended: bool) -> Vec<GroupTarget> {
    let target = |group: &str, owner: ApiOwner| GroupTarget {
        group: group.to_owned(),
        owner,
        predecessor: None,
        database: None,
        service: service_ref(&spec.namespace, spec.names.server()),
        ca_bundle: server.ca_bundle.clone(),
        server_ready: server.ready,
        control_available: server.control_available,
        persistent: spec.backend().is_persistent(),
        suspended,
        settings: spec.migration.clone(),
    };
    let named = spec.apis.iter().map(|api| GroupTarget {
        predecessor: predecessor(api),
        database: predecessor_database(spec, api),
        ..target(&api.group, api.owner)
    });
    let dropped = spec.dropped.iter();
    let dropped = dropped.map(|group| target(group, ApiOwner::Crd));
    named.chain(dropped).collect()
}

/// Returns the server that a group is taken over from.
fn predecessor(api: &ApiSpec) -> Option<migration::Predecessor> {
    let server = api.from.as_ref()?.server.as_ref()?;
    Some(migration::Predecessor {
        namespace: server.namespace.clone(),
        name: server.name.clone(),
        user: server.user(),
    })
}

/// Returns the database of a server that is gone, which reports of a group are imported from.
fn predecessor_database(spec: &Validated, api: &ApiSpec) -> Option<migration::PredecessorDatabase> {
    let database = api.from.as_ref()?.database.as_ref()?;
    let cluster_id = database.cluster_id.as_ref().unwrap_or(&spec.cluster_uid);
    let secret = &database.connection_secret_ref.name;
    Some(migration::PredecessorDatabase::new(
        &spec.namespace,
        secret,
        cluster_id,
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::controller::fixtures;

    fn database(from: &Value) -> Option<migration::PredecessorDatabase> {
        let api = json!({"group": "wgpolicyk8s.io", "owner": "Server", "from": from});
        let spec = fixtures::validated(json!({"apis": [api]}));
        assert!(predecessor(&spec.apis[0]).is_none());
        predecessor_database(&spec, &spec.apis[0])
    }

    #[test]
    fn reports_of_this_cluster_are_imported_unless_another_one_is_named() {
        let secret = json!({"name": "s"});
        let own = database(&json!({"database": {"connectionSecretRef": secret}})).unwrap();
        let uid = fixtures::read().cluster_uid;
        assert_eq!(
            own,
            migration::PredecessorDatabase::new("target", "s", &uid)
        );
        let other = "99999999-9999-9999-9999-999999999999";
        let from = json!({"database": {"connectionSecretRef": secret, "clusterID": other}});
        assert_eq!(database(&from).unwrap().cluster_id, other);
    }

    fn group(name: &str, phase: MigrationPhase) -> GroupStatus {
        GroupStatus {
            group: name.to_owned(),
            phase,
            ..GroupStatus::default()
        }
    }

    fn registered(group: &str) -> Registered {
        Registered {
            group: group.to_owned(),
            ca_bundle: Vec::new(),
        }
    }

    fn names(groups: &[&str]) -> BTreeSet<String> {
        groups.iter().map(|group| (*group).to_owned()).collect()
    }

    #[test]
    fn a_group_that_is_named_no_more_goes_back_until_it_is_back() {
        let mut object =
            fixtures::object(json!({"apis": [{"group": "named.io", "owner": "Server"}]}));
        let pointed = [
            registered("named.io"),
            registered("gone.io"),
            registered(control::GROUP),
        ];
        assert_eq!(dropped(&object, &pointed, &[]), names(&["gone.io"]));
        // The APIServices are back before the rest is.
        let here = [
            group("named.io", MigrationPhase::Retaining),
            group("gone.io", MigrationPhase::RollingBack),
        ];
        assert_eq!(dropped(&object, &[], &here), names(&["gone.io"]));
        let here = [group("gone.io", MigrationPhase::RolledBack)];
        assert_eq!(dropped(&object, &[], &here), names(&[]));
        // An operator that has just started knows of the way back from the status alone.
        object.status = Some(
            serde_json::from_value(json!({"migration": {"groups": [
                {"group": "gone.io", "phase": "RollingBack"},
                {"group": "undone.io", "phase": "Switching"},
                {"group": "back.io", "phase": "RolledBack"},
            ]}}))
            .unwrap(),
        );
        assert_eq!(dropped(&object, &[], &[]), names(&["gone.io", "undone.io"]));
        // The status is behind what this process knows.
        let here = ["gone.io", "undone.io"].map(|name| group(name, MigrationPhase::RolledBack));
        assert_eq!(dropped(&object, &[], &here), names(&[]));
    }

    #[test]
    fn a_group_that_was_dropped_is_to_go_back_with_the_settings_of_the_others() {
        let spec = Validated {
            dropped: names(&["gone.io"]),
            ..fixtures::validated(json!({"apis": [{"group": "named.io", "owner": "Server"}]}))
        };
        let server = Serving {
            ready: true,
            control_available: true,
            ca_bundle: b"ca".to_vec(),
        };
        let all = targets(&spec, &server, false);
        let owners: Vec<_> = all.iter().map(|t| (t.group.as_str(), t.owner)).collect();
        let wanted = [("named.io", ApiOwner::Server), ("gone.io", ApiOwner::Crd)];
        assert_eq!(owners, wanted);
        assert_eq!(all[1].service, all[0].service);
        assert_eq!(all[1].settings, all[0].settings);
    }
}
