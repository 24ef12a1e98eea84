//! The objects of an installation, by how OLM brings them to a cluster.

use crate::manifests::error::Error;
use crate::manifests::installation::documents;
use crate::manifests::place::Place;
use crate::manifests::render::Document;
use crate::manifests::rules::Reasoned;
use crate::names::{AGGREGATE_LABEL, METRICS_ACCESS_CLUSTER_ROLE, OPERATOR};

/// The objects of an installation, by how OLM brings them.
pub(super) struct Parts {
    /// The CRD, a file of the bundle.
    pub crd: Document,
    /// The Deployment, which OLM makes from the `ClusterServiceVersion`.
    pub deployment: Document,
    /// The rules that OLM grants to the operator's account in the whole cluster. It makes account,
    /// role and binding.
    pub granted: Vec<Reasoned>,
    /// Files of the bundle, without namespace: OLM sets its own.
    pub held: Vec<Document>,
    /// Objects that a bundle cannot hold.
    pub beside: Vec<Document>,
}

/// The way in which OLM brings one object.
enum Part {
    Crd,
    Deployment,
    /// OLM makes it by itself.
    Made,
    Granted,
    Held,
    Beside,
}

/// Returns the objects of an installation, by how OLM brings them.
pub(super) fn parts(place: &Place) -> Result<Parts, Error> {
    let mut crd = None;
    let mut deployment = None;
    let mut granted = Vec::new();
    let mut held = Vec::new();
    let mut beside = Vec::new();
    for document in documents(place)? {
        match part_of(&document) {
            Part::Crd => crd = Some(document),
            Part::Deployment => deployment = Some(document),
            Part::Made => {}
            Part::Granted => granted.extend(document.rules),
            Part::Held => held.push(without_namespace(document)),
            Part::Beside => beside.push(document),
        }
    }
    Ok(Parts {
        crd: crd.ok_or(Error::Missing("CustomResourceDefinition"))?,
        deployment: deployment.ok_or(Error::Missing("Deployment"))?,
        granted,
        held,
        beside,
    })
}

/// Returns how OLM brings an object. With the install mode for all namespaces, it grants a
/// `permission` of a `ClusterServiceVersion` in the whole cluster. So the operator's Role is held as
/// it is, and so is the Service. A bundle holds only some kinds, so a policy is applied beside. So is
/// a role that gathers others: OLM would write it without rules at each upgrade.
fn part_of(document: &Document) -> Part {
    let object = &document.object;
    let metadata = &object["metadata"];
    let is_operator =
        metadata["name"] == OPERATOR || metadata["name"] == METRICS_ACCESS_CLUSTER_ROLE;
    let is_gathered = metadata["labels"][AGGREGATE_LABEL] == "true";
    match object["kind"].as_str().unwrap_or_default() {
        "CustomResourceDefinition" => Part::Crd,
        "Deployment" => Part::Deployment,
        "ServiceAccount" => Part::Made,
        "ClusterRoleBinding" if is_operator => Part::Made,
        "ClusterRole" if is_operator || is_gathered => Part::Granted,
        "ClusterRole" if object["aggregationRule"].is_object() => Part::Beside,
        "ClusterRole" | "Role" | "RoleBinding" | "Service" => Part::Held,
        _ => Part::Beside,
    }
}

fn without_namespace(mut document: Document) -> Document {
    if let Some(metadata) = document.object["metadata"].as_object_mut() {
        metadata.remove("namespace");
    }
    document
}
