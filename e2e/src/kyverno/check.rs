//! The check that the reports fit the existing objects.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DynamicObject, ListParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::KyvernoError;
use super::churn::NAMESPACES;
use crate::request::RequestError;
use testreports::ReportKind;

/// The objects that are reported on, by uid.
type Objects = BTreeMap<String, String>;

/// The findings.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Objects that the policies match.
    pub objects: usize,
    /// Reports of all namespaces.
    pub reports: usize,
    /// Objects without exactly one report, in words.
    pub without_one: Vec<String>,
    /// Reports without an owner.
    pub without_owner: Vec<String>,
    /// Reports in the churn's namespaces of objects that are gone.
    pub of_nothing: Vec<String>,
    /// Ephemeral reports that are left.
    pub ephemeral: usize,
}

impl Found {
    /// Returns whether all is right.
    pub fn is_right(&self) -> bool {
        self.without_one.is_empty() && self.without_owner.is_empty()
    }
}

/// Compares once.
pub async fn check(client: &Client) -> Result<Found, KyvernoError> {
    let mut objects = Objects::new();
    for namespace in NAMESPACES {
        add::<ConfigMap>(client, namespace, "churn=canary", &mut objects).await?;
        add::<Deployment>(client, namespace, "", &mut objects).await?;
        add::<ReplicaSet>(client, namespace, "", &mut objects).await?;
        add::<Pod>(client, namespace, "", &mut objects).await?;
    }
    let mut found = Found {
        objects: objects.len(),
        ephemeral: reports(client, ReportKind::EphemeralReport).await?.len(),
        ..Found::default()
    };
    let reports = reports(client, ReportKind::PolicyReport).await?;
    found.reports = reports.len();
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut unknown = BTreeSet::new();
    for report in &reports {
        let place = format!(
            "{}/{}",
            report.namespace().unwrap_or_default(),
            report.name_any()
        );
        if report.owner_references().is_empty() {
            found.without_owner.push(place.clone());
        }
        let subject = report.data["scope"]["uid"].as_str().unwrap_or_default();
        *counts.entry(subject.to_owned()).or_default() += 1;
        let ours = report
            .namespace()
            .is_some_and(|n| NAMESPACES.contains(&n.as_str()));
        if ours && !objects.contains_key(subject) {
            unknown.insert(place);
        }
    }
    found.of_nothing = unknown.into_iter().collect();
    for (uid, object) in objects {
        let count = counts.get(&uid).copied().unwrap_or_default();
        if count != 1 {
            found
                .without_one
                .push(format!("{object} ({uid}) has {count} reports"));
        }
    }
    Ok(found)
}

async fn add<K>(
    client: &Client,
    namespace: &str,
    labels: &str,
    objects: &mut Objects,
) -> Result<(), KyvernoError>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let list = api.list(&ListParams::default().labels(labels)).await;
    for object in list.map_err(RequestError::of("list objects"))? {
        if object.meta().deletion_timestamp.is_none() {
            let text = format!("{} {namespace}/{}", K::kind(&()), object.name_any());
            objects.insert(object.uid().unwrap_or_default(), text);
        }
    }
    Ok(())
}

async fn reports(client: &Client, kind: ReportKind) -> Result<Vec<DynamicObject>, KyvernoError> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind.api_resource());
    let list = api.list(&ListParams::default()).await;
    Ok(list.map_err(RequestError::of("list reports"))?.items)
}
