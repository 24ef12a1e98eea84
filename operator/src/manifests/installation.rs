//! The objects of an installation, in the order in which they have to exist.

use std::collections::BTreeMap;

use serde::Serialize;

use super::availability;
use super::error::Error;
use super::guard;
use super::objects;
use super::place::Place;
use super::policies;
use super::readers;
use super::render::Document;
use super::rules;
use crate::names::{
    AGGREGATE_LABEL, METRICS_ACCESS_CLUSTER_ROLE, METRICS_CLUSTER_ROLE, OPERAND_CLUSTER_ROLE,
    OPERATOR, REPORTS_CLUSTER_ROLE, SERVER_CLUSTER_ROLE,
};

/// The files of a folder: the path of each below it, and its text.
pub type Files = BTreeMap<String, String>;

/// Annotations by which Argo CD and Flux do not prune an object.
const NOT_PRUNED: [(&str, &str); 2] = [
    ("argocd.argoproj.io/sync-options", "Prune=false"),
    ("kustomize.toolkit.fluxcd.io/prune", "disabled"),
];

/// Returns the documents in the order in which they have to exist.
pub(super) fn documents(place: &Place) -> Result<Vec<Document>, Error> {
    let mut documents = vec![
        plain(&objects::namespace(place))?,
        crd()?,
        plain(&objects::service_account(place))?,
    ];
    documents.extend(roles(place));
    documents.extend([guard::policy(), guard::binding()]);
    documents.push(plain(&objects::metrics_service(place))?);
    documents.push(plain(&availability::priority_quota(place))?);
    documents.push(plain(&objects::deployment(place))?);
    Ok(documents)
}

/// Returns the CRD. It is not pruned with the operator: each `ReportsServer` would go with it, and
/// wait for an operator that is gone.
fn crd() -> Result<Document, Error> {
    let mut crd = crds::v1alpha1::reports_server_crd().map_err(Error::Crd)?;
    let annotations = crd.metadata.annotations.get_or_insert_default();
    annotations.extend(NOT_PRUNED.map(|(key, value)| (key.to_owned(), value.to_owned())));
    plain(&crd)
}

/// Returns the roles and their bindings.
fn roles(place: &Place) -> Vec<Document> {
    let operator = objects::subject(place);
    let own = Some(place.namespace.as_str());
    vec![
        objects::role("ClusterRole", OPERATOR, None, &[], &rules::cluster()),
        objects::binding("ClusterRole", OPERATOR, None, OPERATOR, &operator),
        objects::aggregated(REPORTS_CLUSTER_ROLE, AGGREGATE_LABEL),
        objects::binding(
            "ClusterRole",
            REPORTS_CLUSTER_ROLE,
            None,
            REPORTS_CLUSTER_ROLE,
            &operator,
        ),
        objects::role(
            "ClusterRole",
            "reports-server-operator:reports-builtin",
            None,
            &[(AGGREGATE_LABEL, "true")],
            &rules::reports(),
        ),
        objects::role(
            "ClusterRole",
            METRICS_ACCESS_CLUSTER_ROLE,
            None,
            &[],
            &readers::reviews(),
        ),
        objects::binding(
            "ClusterRole",
            METRICS_ACCESS_CLUSTER_ROLE,
            None,
            METRICS_ACCESS_CLUSTER_ROLE,
            &operator,
        ),
        objects::role(
            "ClusterRole",
            OPERAND_CLUSTER_ROLE,
            None,
            &[],
            &rules::operand(),
        ),
        objects::role(
            "ClusterRole",
            SERVER_CLUSTER_ROLE,
            None,
            &[],
            &readers::server(),
        ),
        objects::role("Role", OPERATOR, own, &[], &rules::own_namespace()),
        objects::binding("Role", OPERATOR, own, OPERATOR, &operator),
        objects::role(
            "ClusterRole",
            "reports-server:view",
            None,
            &[("rbac.authorization.k8s.io/aggregate-to-view", "true")],
            &readers::view(),
        ),
        objects::role(
            "ClusterRole",
            METRICS_CLUSTER_ROLE,
            None,
            &[],
            &readers::metrics(),
        ),
    ]
}

fn plain<T: Serialize>(object: &T) -> Result<Document, Error> {
    Ok(Document::plain(serde_json::to_value(object)?))
}

/// Returns the object that has Prometheus scrape the operator.
pub(super) fn monitor_document(place: &Place) -> Document {
    Document::plain(objects::monitor(place))
}

/// Returns the budget of the operators, which no installation has unasked.
pub(super) fn budget_document(place: &Place) -> Result<Document, Error> {
    plain(&availability::disruption_budget(place))
}

/// Returns a YAML stream of documents below a header.
pub(super) fn stream(header: &str, documents: &[Document]) -> Result<String, Error> {
    let mut text = String::from(header);
    for document in documents {
        text.push_str("---\n");
        text.push_str(&document.to_yaml()?);
    }
    Ok(text)
}

/// Returns the admission policies, for an operator with this account.
pub(super) fn policy_documents(account: &str) -> Vec<Document> {
    let objects = policies::objects(account);
    objects.into_iter().map(Document::plain).collect()
}
