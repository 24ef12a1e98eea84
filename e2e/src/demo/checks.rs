//! The questions that a cluster has to answer well before anything is changed in it.

use crds::names::SIDE_DOOR;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};

use super::{DemoError, PREFIX};
use crate::request::RequestError;
use crate::takeover::load::MADE;
use crate::takeover::{GROUPS, OPERATOR_NAMESPACE, TARGET_NAMESPACE};
use testcluster::Release;

/// Name of the operator's own CRD.
pub const SERVERS: &str = "reportsservers.reports-server.io";
/// Annotation of the `StorageClass` of volumes that name none.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// The oldest release of Kubernetes that the operator supports.
const OLDEST: &str = "1.34";
/// Namespaces that the line makes under these names.
const NAMESPACES: [&str; 7] = [
    OPERATOR_NAMESPACE,
    TARGET_NAMESPACE,
    "noise-00",
    "chaos-00",
    "chaos-01",
    "emptied-00",
    "emptied-01",
];

/// Returns the CRDs of the report groups that are in the cluster, when nothing speaks against the
/// demo.
///
/// # Errors
/// The first thing that does.
pub async fn fits(
    client: &Client,
    release: Release,
) -> Result<Vec<CustomResourceDefinition>, DemoError> {
    let oldest: Release = OLDEST.parse()?;
    if release < oldest {
        let why = format!("Kubernetes {release} is too old: the operator needs {OLDEST} or newer");
        return Err(DemoError::Refused(why));
    }
    if !may_do_everything(client).await? {
        let why = "the user of this kubeconfig may not do everything in the cluster, as \
                   cluster-admin may";
        return Err(DemoError::Refused(why.to_owned()));
    }
    if !has_default_class(client).await? {
        let why = "the cluster has no default StorageClass for the volume with the reports";
        return Err(DemoError::Refused(why.to_owned()));
    }
    no_namespace_is_taken(client).await?;
    nobody_else_serves(client).await?;
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crds = crds.list(&ListParams::default()).await;
    let mut crds = crds.map_err(RequestError::of("list CRDs"))?.items;
    if crds.iter().any(|crd| name_of(crd) == SERVERS) {
        let why = "the operator is installed in the cluster already: the demo would uninstall it \
                   at its end";
        return Err(DemoError::Refused(why.to_owned()));
    }
    crds.retain(|crd| GROUPS.contains(&crd.spec.group.as_str()));
    for crd in &crds {
        is_closed(crd)?;
        has_no_reports(client, crd).await?;
    }
    Ok(crds)
}

/// Returns the name of a CRD.
pub fn name_of(crd: &CustomResourceDefinition) -> &str {
    crd.metadata.name.as_deref().unwrap_or_default()
}

async fn may_do_everything(client: &Client) -> Result<bool, DemoError> {
    let all = || Some("*".to_owned());
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: all(),
                resource: all(),
                verb: all(),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await;
    let answer = answer.map_err(RequestError::of("ask for the rights of this kubeconfig"))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

async fn has_default_class(client: &Client) -> Result<bool, DemoError> {
    let classes: Api<StorageClass> = Api::all(client.clone());
    let classes = classes.list(&ListParams::default()).await;
    let classes = classes.map_err(RequestError::of("list StorageClasses"))?;
    Ok(classes.items.iter().any(|class| {
        let annotations = class.metadata.annotations.as_ref();
        let value = annotations.and_then(|annotations| annotations.get(DEFAULT_CLASS));
        value.is_some_and(|value| value == "true")
    }))
}

/// Makes sure that all namespaces of the line are free, so that none is deleted that was there.
async fn no_namespace_is_taken(client: &Client) -> Result<(), DemoError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let all = namespaces.list(&ListParams::default()).await;
    let all = all.map_err(RequestError::of("list namespaces"))?;
    let (label, value) = MADE;
    for namespace in all {
        let name = namespace.metadata.name.unwrap_or_default();
        let labels = namespace.metadata.labels.unwrap_or_default();
        if labels.get(label).is_some_and(|found| found == value) {
            let why = format!(
                "the namespace {name} is left of an earlier demo; remove all such with `kubectl \
                 delete namespaces --selector {label}={value}`"
            );
            return Err(DemoError::Refused(why));
        }
        if NAMESPACES.contains(&name.as_str()) || name.starts_with(PREFIX) {
            let why = format!("the demo needs a namespace {name}, and the cluster has one already");
            return Err(DemoError::Refused(why));
        }
    }
    Ok(())
}

/// Makes sure that no aggregated API server answers for the report groups.
async fn nobody_else_serves(client: &Client) -> Result<(), DemoError> {
    let services: Api<APIService> = Api::all(client.clone());
    let services = services.list(&ListParams::default()).await;
    let services = services.map_err(RequestError::of("list APIServices"))?;
    for service in services {
        let name = service.metadata.name.unwrap_or_default();
        let Some(spec) = service.spec else { continue };
        let group = spec.group.unwrap_or_default();
        if spec.service.is_some() && GROUPS.contains(&group.as_str()) {
            let why = format!("the APIService {name} leads to another server of reports");
            return Err(DemoError::Refused(why));
        }
    }
    Ok(())
}

/// Makes sure that no earlier way back has left a side door, whose guard the demo would remove.
fn is_closed(crd: &CustomResourceDefinition) -> Result<(), DemoError> {
    let mut versions = crd.spec.versions.iter();
    if versions.all(|version| version.name != SIDE_DOOR) {
        return Ok(());
    }
    let why = format!(
        "the CRD {} has the version {SIDE_DOOR} of an earlier way back: apply the CRD again as it was \
         shipped, or take another cluster",
        name_of(crd)
    );
    Err(DemoError::Refused(why))
}

async fn has_no_reports(client: &Client, crd: &CustomResourceDefinition) -> Result<(), DemoError> {
    let spec = &crd.spec;
    let Some(version) = spec.versions.iter().find(|version| version.served) else {
        return Ok(());
    };
    let kind = GroupVersionKind::gvk(&spec.group, &version.name, &spec.names.kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, &spec.names.plural);
    let reports: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let reports = reports.list(&ListParams::default().limit(1)).await;
    let reports = reports.map_err(RequestError::of("list reports"))?;
    if reports.items.is_empty() {
        return Ok(());
    }
    let why = format!(
        "the cluster has {} of its own, which the demo does not touch: take a cluster without \
         reports, or go on with docs/quickstart.md",
        name_of(crd)
    );
    Err(DemoError::Refused(why))
}
