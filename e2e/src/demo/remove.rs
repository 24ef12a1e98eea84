//! The end of the demo: everything that it made goes, in the order in which nothing is lost.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

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
use crate::takeover::{GROUPS, NAME, TARGET_NAMESPACE};
use testreports::kinds;

/// Longest time until one object is gone; the `ReportsServer` gives all reports back before.
const LIMIT: Duration = Duration::from_mins(10);
const PAUSE: Duration = Duration::from_millis(500);
/// The version that a way back leaves open in a CRD.
const DOOR: &str = "legacy";

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
    manifests: &Path,
) -> Result<(), String> {
    let left = |error: DemoError| {
        let by_hand = by_hand(&definitions.missing);
        format!(
            "not everything that the demo made was removed: {error}. Remove the rest in this \
             order: {by_hand}"
        )
    };
    servers(client).await.map_err(left)?;
    operator(site, manifests).await.map_err(left)?;
    doors(client).await.map_err(left)?;
    report_crds(site, client, definitions).await.map_err(left)?;
    namespaces(client).await.map_err(left)
}

/// Returns the commands that remove everything, for a person.
fn by_hand(missing: &[CustomResourceDefinition]) -> String {
    let (label, value) = MADE;
    let mut commands = vec![
        format!("`kubectl delete reportsserver {NAME}`"),
        "`kubectl delete -f manifests/install.yaml`".to_owned(),
    ];
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(name_of).collect();
        commands.push(format!("`kubectl delete crd {}`", names.join(" ")));
    }
    commands.push(format!("`kubectl delete namespace {TARGET_NAMESPACE}`"));
    commands.push(format!(
        "`kubectl delete namespaces --selector {label}={value}`"
    ));
    commands.join(", ")
}

/// Deletes the `ReportsServer`, which gives the groups back to their CRDs before it goes. Without
/// an operator it could not, so that goes later.
async fn servers(client: &Client) -> Result<(), DemoError> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    if is_absent(&crds, SERVERS).await? {
        return Ok(());
    }
    let servers: Api<ReportsServer> = Api::all(client.clone());
    gone(&servers, NAME).await
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
        let name = format!("reports-server-side-door.{group}");
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
    for was in &definitions.kept {
        let is = crds.get_opt(name_of(was)).await;
        let is = is.map_err(RequestError::of("read a report CRD"))?;
        let Some(is) = is else { continue };
        close_door(site, was, &is).await?;
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
    was: &CustomResourceDefinition,
    is: &CustomResourceDefinition,
) -> Result<(), DemoError> {
    let door = |crd: &CustomResourceDefinition| {
        let mut versions = crd.spec.versions.iter();
        versions.position(|version| version.name == DOOR)
    };
    let (None, Some(index)) = (door(was), door(is)) else {
        return Ok(());
    };
    let operations = json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": is.metadata.resource_version},
        {"op": "remove", "path": format!("/spec/versions/{index}")},
    ]);
    let (name, operations) = (name_of(is), operations.to_string());
    let patch = ["patch", "crd", name, "--type=json", "-p", &operations];
    site.kubectl(&patch.map(OsStr::new), "").await?;
    Ok(())
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
        absent(&namespaces, name).await?;
    }
    Ok(())
}

/// Deletes an object, if it is there, and waits until it is gone.
async fn gone<K>(api: &Api<K>, name: &str) -> Result<(), DemoError>
where
    K: Clone + Debug + DeserializeOwned,
{
    delete(api, name).await?;
    absent(api, name).await
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

/// Waits until an object is gone.
async fn absent<K>(api: &Api<K>, name: &str) -> Result<(), DemoError>
where
    K: Clone + Debug + DeserializeOwned,
{
    let deadline = Instant::now() + LIMIT;
    while !is_absent(api, name).await? {
        if Instant::now() > deadline {
            return Err(DemoError::NotGone(name.to_owned()));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
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
