//! The end of the demo: everything that it made goes, in the order in which nothing is lost.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use crds::names::{SIDE_DOOR, side_door_policy};
use crds::v1alpha1::ReportsServer;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::Instant;

use super::checks::{SERVERS, name_of};
use super::site::Site;
use super::{DemoError, PREFIX};
use crate::access::Access as _;
use crate::chaos::LABEL;
use crate::request::RequestError;
use crate::takeover::load::MADE;
use crate::takeover::{GROUPS, NAME, TARGET_NAMESPACE, TakeoverOptions};
use testreports::kinds;

/// Longest time until one object is gone.
const LIMIT: Duration = Duration::from_mins(10);
/// Longest further time for each report that the `ReportsServer` gives back before it goes.
const FOR_EACH_REPORT: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_millis(500);
/// The number of times that a CRD is read again because somebody has changed it.
const CONFLICTS: u32 = 5;

/// The report CRDs of a cluster.
#[derive(Debug)]
pub struct Definitions {
    /// Those that were there.
    pub kept: Vec<CustomResourceDefinition>,
    /// Those that the demo installs.
    pub missing: Vec<CustomResourceDefinition>,
}

/// Removes everything that the demo made, or may have made before it ended early.
///
/// # Errors
/// A sentence that says what stays, why, and how to remove it.
pub async fn everything(
    site: &Site,
    client: &Client,
    definitions: &Definitions,
    line: &TakeoverOptions,
) -> Result<(), String> {
    let left = |error: DemoError| {
        let by_hand = by_hand(site, definitions);
        format!(
            "not everything that the demo made was removed: {error}. Remove the rest in this \
             order: {by_hand}"
        )
    };
    let reports = u32::try_from(line.reports).unwrap_or(u32::MAX);
    let limit = LIMIT + FOR_EACH_REPORT * reports;
    servers(client, limit).await.map_err(left)?;
    operator(site, &line.manifests).await.map_err(left)?;
    doors(client).await.map_err(left)?;
    report_crds(site, client, definitions).await.map_err(left)?;
    namespaces(client).await.map_err(left)
}

/// Returns the commands that remove everything, for a person.
fn by_hand(site: &Site, definitions: &Definitions) -> String {
    let (label, value) = MADE;
    let mut deletions = vec![
        format!("reportsserver {NAME}"),
        "-f manifests/install.yaml".to_owned(),
    ];
    for group in GROUPS {
        let kinds = "validatingadmissionpolicy,validatingadmissionpolicybinding";
        let name = side_door_policy(group);
        deletions.push(format!("{kinds} {name} --ignore-not-found"));
    }
    if !definitions.missing.is_empty() {
        let names: Vec<_> = definitions.missing.iter().map(name_of).collect();
        deletions.push(format!("crd {}", names.join(" ")));
    }
    deletions.push(format!("namespace {TARGET_NAMESPACE}"));
    deletions.push(format!("namespaces --selector {label}={value}"));
    let (file, context) = (site.named.display(), &site.context);
    let kubectl = format!("kubectl --kubeconfig {file} --context {context} delete");
    let commands = deletions
        .iter()
        .map(|what| format!("`{kubectl} {what}`"))
        .collect::<Vec<_>>()
        .join(", ");
    if definitions.kept.is_empty() {
        return commands;
    }
    let names: Vec<_> = definitions.kept.iter().map(name_of).collect();
    format!(
        "{commands}; and apply the CRDs {} again as they were shipped, without the version {SIDE_DOOR}",
        names.join(", ")
    )
}

/// Deletes the `ReportsServer`, which gives the groups back to their CRDs before it goes. Without
/// an operator it could not, so that goes later.
async fn servers(client: &Client, limit: Duration) -> Result<(), DemoError> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    if is_absent(&crds, SERVERS).await? {
        return Ok(());
    }
    let servers: Api<ReportsServer> = Api::all(client.clone());
    delete(&servers, NAME).await?;
    absent(&servers, NAME, limit).await
}

async fn operator(site: &Site, manifests: &Path) -> Result<(), DemoError> {
    let manifest = manifests.join("install.yaml");
    let mut arguments = ["delete", "--ignore-not-found", "--timeout=300s", "-f"]
        .map(OsStr::new)
        .to_vec();
    arguments.push(manifest.as_os_str());
    site.kubectl(&arguments, "").await?;
    Ok(())
}

/// Deletes the policies that guard the version which a way back leaves open.
async fn doors(client: &Client) -> Result<(), DemoError> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    for group in GROUPS {
        let name = side_door_policy(group);
        gone(&bindings, &name).await?;
        gone(&policies, &name).await?;
    }
    Ok(())
}

/// Deletes the report CRDs that the demo installed, with the reports; in the others the reports
/// that are the demo's, and the version that a way back leaves open.
async fn report_crds(
    site: &Site,
    client: &Client,
    definitions: &Definitions,
) -> Result<(), DemoError> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in &definitions.missing {
        gone(&crds, name_of(crd)).await?;
    }
    for crd in &definitions.kept {
        close_door(site, &crds, name_of(crd)).await?;
    }
    for kind in kinds().filter(|kind| !kind.namespaced()) {
        let crd = format!("{}.{}", kind.plural(), kind.group());
        if !definitions.kept.iter().any(|was| name_of(was) == crd) {
            continue;
        }
        let reports: Api<DynamicObject> = Api::all_with(client.clone(), &kind.api_resource());
        let listed = reports.list(&ListParams::default()).await;
        let listed = listed.map_err(RequestError::of("list reports"))?;
        for report in listed.items.iter().filter(|report| is_ours(report)) {
            let name = report.metadata.name.as_deref().unwrap_or_default();
            gone(&reports, name).await?;
        }
    }
    Ok(())
}

/// Takes the version that the operator added out of a CRD that was there before it.
async fn close_door(
    site: &Site,
    crds: &Api<CustomResourceDefinition>,
    name: &str,
) -> Result<(), DemoError> {
    let mut attempt = 1;
    loop {
        let crd = crds.get_opt(name).await;
        let Some(crd) = crd.map_err(RequestError::of("read a report CRD"))? else {
            return Ok(());
        };
        let mut versions = crd.spec.versions.iter();
        let Some(index) = versions.position(|version| version.name == SIDE_DOOR) else {
            return Ok(());
        };
        let version = &crd.metadata.resource_version;
        let operations = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "remove", "path": format!("/spec/versions/{index}")},
        ]);
        let patch = ["patch", "crd", name, "--type=json", "-p"];
        let operations = operations.to_string();
        let arguments = [&patch[..], &[operations.as_str()]].concat();
        let arguments: Vec<_> = arguments.into_iter().map(OsStr::new).collect();
        match site.kubectl(&arguments, "").await {
            Ok(_) => return Ok(()),
            Err(_) if attempt < CONFLICTS => attempt += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns whether a report of the whole cluster is the demo's: owned by one of its namespaces, or
/// written by a client of the way back.
fn is_ours(report: &DynamicObject) -> bool {
    let owners = report.metadata.owner_references.iter().flatten();
    let mut namespaces = owners.filter(|owner| owner.kind == "Namespace");
    let labels = report.metadata.labels.as_ref();
    namespaces.any(|owner| owner.name.starts_with(PREFIX))
        || labels.is_some_and(|labels| labels.contains_key(LABEL))
}

/// Deletes the namespaces, with all that is in them: at once, then waits for each.
async fn namespaces(client: &Client) -> Result<(), DemoError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let (label, value) = MADE;
    let made = ListParams::default().labels(&format!("{label}={value}"));
    let made = namespaces.list(&made).await;
    let made = made.map_err(RequestError::of("list namespaces"))?;
    let made = made.items.into_iter();
    let mut names: Vec<_> = made.filter_map(|one| one.metadata.name).collect();
    names.push(TARGET_NAMESPACE.to_owned());
    for name in &names {
        delete(&namespaces, name).await?;
    }
    for name in &names {
        absent(&namespaces, name, LIMIT).await?;
    }
    Ok(())
}

/// Deletes an object, if it is there, and waits until it is gone.
async fn gone<K>(api: &Api<K>, name: &str) -> Result<(), DemoError>
where
    K: Clone + Debug + DeserializeOwned,
{
    delete(api, name).await?;
    absent(api, name, LIMIT).await
}

/// Deletes an object, if it is there.
async fn delete<K>(api: &Api<K>, name: &str) -> Result<(), DemoError>
where
    K: Clone + Debug + DeserializeOwned,
{
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(RequestError::of("delete an object of the demo")(error).into()),
    }
}

/// Waits until an object is gone. A request that fails meanwhile is made again.
async fn absent<K>(api: &Api<K>, name: &str, limit: Duration) -> Result<(), DemoError>
where
    K: Clone + Debug + DeserializeOwned,
{
    let deadline = Instant::now() + limit;
    loop {
        let absent = is_absent(api, name).await;
        if let Ok(true) = absent {
            return Ok(());
        }
        if Instant::now() > deadline {
            absent?;
            return Err(DemoError::NotGone(name.to_owned(), limit));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn is_absent<K>(api: &Api<K>, name: &str) -> Result<bool, DemoError>
where
    K: Clone + Debug + DeserializeOwned,
{
    let found = api.get_opt(name).await;
    let found = found.map_err(RequestError::of("read an object of the demo"))?;
    Ok(found.is_none())
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectMeta;
    use serde_json::Value;

    use super::*;

    fn report(metadata: Value) -> DynamicObject {
        DynamicObject {
            types: None,
            metadata: serde_json::from_value::<ObjectMeta>(metadata).unwrap(),
            data: Value::Null,
        }
    }

    #[test]
    fn the_reports_of_others_stay() {
        let owned = |name: &str| {
            report(json!({"ownerReferences": [
                {"apiVersion": "v1", "kind": "Namespace", "name": name, "uid": "u"}]}))
        };
        assert!(is_ours(&owned(&format!("{PREFIX}team-00"))));
        assert!(is_ours(&report(json!({"labels": {LABEL: "selected"}}))));
        assert!(!is_ours(&owned("team-00")));
        assert!(!is_ours(&report(json!({"labels": {"app": "kyverno"}}))));
    }
}
