//! The writers of what a tool applies and of what a switch changes, read from the managed fields of
//! the objects.

use std::collections::BTreeMap;

use crds::v1alpha1::ReportsServer;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::matrix::error::MatrixError;
use crate::takeover::{GROUPS, NAME};

/// The kinds of objects, in front of their names.
const CRD: &str = "CRD";
const API_SERVICE: &str = "APIService";
const SERVER: &str = "ReportsServer";

/// The writes that one object shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The number of its specification: each change of that counts.
    pub generation: i64,
    /// The time of each field manager's last write of anything but the status.
    pub managers: BTreeMap<String, String>,
}

impl Written {
    fn of(metadata: &ObjectMeta) -> Self {
        let mut managers = BTreeMap::new();
        for entry in metadata.managed_fields.iter().flatten() {
            // The status belongs to the kube-apiserver, or the operator, alone.
            if entry.subresource.as_deref().unwrap_or_default().is_empty() {
                let manager = entry.manager.clone().unwrap_or_default();
                let time = entry.time.as_ref().map(|time| time.0.to_string());
                let last: &mut String = managers.entry(manager).or_default();
                *last = time.unwrap_or_default().max(last.clone());
            }
        }
        Self {
            generation: metadata.generation.unwrap_or_default(),
            managers,
        }
    }
}

/// The writes that the CRDs of the reports, their APIServices and the `ReportsServer` show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writes(BTreeMap<String, Written>);

impl Writes {
    /// Reads them.
    ///
    /// # Errors
    /// If the kube-apiserver refuses.
    pub async fn read(client: &Client) -> Result<Self, MatrixError> {
        let mut writes = BTreeMap::new();
        let mut note = |kind: &str, metadata: &ObjectMeta| {
            let name = metadata.name.as_deref().unwrap_or_default();
            writes.insert(format!("{kind} {name}"), Written::of(metadata));
        };
        let all = ListParams::default();
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        for crd in crds.list(&all).await.map_err(testcluster::Error::from)? {
            if GROUPS.contains(&crd.spec.group.as_str()) {
                note(CRD, &crd.metadata);
            }
        }
        let services: Api<APIService> = Api::all(client.clone());
        let services = services.list(&all).await;
        for service in services.map_err(testcluster::Error::from)? {
            let spec = service.spec.unwrap_or_default();
            if GROUPS.contains(&spec.group.unwrap_or_default().as_str()) {
                note(API_SERVICE, &service.metadata);
            }
        }
        let servers: Api<ReportsServer> = Api::all(client.clone());
        let server = servers.get_opt(NAME).await;
        if let Some(server) = server.map_err(testcluster::Error::from)? {
            note(SERVER, &server.metadata);
        }
        Ok(Self(writes))
    }

    /// Returns the CRDs' writes, by name.
    pub fn crds(&self) -> impl Iterator<Item = (&str, &Written)> {
        self.of(CRD)
    }

    /// Returns the APIServices' writes, by name.
    pub fn api_services(&self) -> impl Iterator<Item = (&str, &Written)> {
        self.of(API_SERVICE)
    }

    /// Returns those of the `ReportsServer`, where there is one.
    #[must_use]
    pub fn server(&self) -> Option<&Written> {
        self.of(SERVER).map(|(_, written)| written).next()
    }

    fn of(&self, kind: &'static str) -> impl Iterator<Item = (&str, &Written)> {
        self.0.iter().filter_map(move |(name, written)| {
            let (of, name) = name.split_once(' ')?;
            (of == kind).then_some((name, written))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_write_of_each_manager_counts_and_the_status_does_not() {
        let entry = |manager: &str, second: u8, subresource: &str| {
            json!({"manager": manager, "operation": "Update", "subresource": subresource,
                "time": format!("2026-01-01T00:00:{second:02}Z")})
        };
        let metadata: ObjectMeta = serde_json::from_value(json!({
            "generation": 3,
            "managedFields": [entry("a", 2, ""), entry("a", 1, ""), entry("b", 3, "status")],
        }))
        .unwrap();
        let written = Written::of(&metadata);
        assert_eq!(written.generation, 3);
        let expected = [("a".to_owned(), "2026-01-01T00:00:02Z".to_owned())];
        assert_eq!(written.managers, BTreeMap::from(expected));
    }

    #[test]
    fn objects_are_told_apart_by_their_kind() {
        let names = ["CRD a.g", "CRD b.g", "APIService v1.g", "ReportsServer a"];
        let writes = names.map(|name| (name.to_owned(), Written::default()));
        let writes = Writes(writes.into());
        let crds: Vec<&str> = writes.crds().map(|(name, _)| name).collect();
        assert_eq!(crds, ["a.g", "b.g"]);
        let services: Vec<&str> = writes.api_services().map(|(name, _)| name).collect();
        assert_eq!(services, ["v1.g"]);
        assert!(writes.server().is_some());
    }
}
