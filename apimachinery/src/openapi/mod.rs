//! OpenAPI v3: the documents that `kubectl explain`, `kubectl apply` and typed tools read about the
//! report APIs.
//!
//! While a resource's CRD is served, the kube-apiserver publishes its document for the same group
//! and version, and a client gets either of the two by chance. So these documents have the content
//! of those of `k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder` 1.36: the same
//! paths, operations, parameters and names of schemas; the texts of some descriptions differ. They
//! are available in JSON, and in protobuf (`crate::protobuf`) for those who ask for it.
//!
//! `/openapi/v2` is answered with 404. The kube-apiserver merges the v2 documents of all servers
//! into one, and a second publisher of some of a CRD's paths makes that fail for the whole cluster
//! (kubernetes/kubernetes#129499); a server without a v2 document is passed over.

mod kinds;
mod parameters;
mod paths;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::definition::{ResourceDefinition, VersionDefinition};
use crate::document::Document;
use crate::meta_v1;

/// All OpenAPI v3 documents.
#[derive(Clone, Debug)]
pub struct OpenApi {
    /// `/openapi/v3`: the paths of the documents with their hashes.
    pub index: Document,
    /// `/openapi/v3/apis/<group>/<version>`, by the path behind `/openapi/v3/`.
    pub documents: BTreeMap<String, Document>,
}

impl OpenApi {
    /// Returns the documents of `definitions`, in any order: one for each group and version.
    ///
    /// # Errors
    /// Never in practice: see [`Document::new`].
    pub fn new<'a>(
        definitions: impl IntoIterator<Item = &'a ResourceDefinition>,
    ) -> Result<Self, serde_json::Error> {
        let mut versions: BTreeMap<String, Vec<Resource<'a>>> = BTreeMap::new();
        for definition in definitions {
            for version in definition.served_versions() {
                let path = format!("apis/{}/{}", definition.group, version.name);
                versions.entry(path).or_default().push(Resource {
                    definition,
                    version,
                });
            }
        }
        let meta = meta_v1::schemas();
        let documents = versions
            .iter()
            .map(|(path, resources)| {
                Ok((path.clone(), Document::new(&document(resources, &meta))?))
            })
            .collect::<Result<BTreeMap<_, _>, serde_json::Error>>()?;
        Ok(Self {
            index: Document::new(&index(&documents))?,
            documents,
        })
    }

    /// Returns the URL of a document, relative to the server: the target of the redirect that
    /// answers an outdated `?hash=`.
    #[must_use]
    pub fn url(path: &str, document: &Document) -> String {
        format!("/openapi/v3/{path}?hash={}", document.hash)
    }
}

/// One version of one resource.
#[derive(Clone, Copy)]
struct Resource<'a> {
    definition: &'a ResourceDefinition,
    version: &'a VersionDefinition,
}

impl Resource<'_> {
    /// Returns the name of a schema: `io.wgpolicyk8s.v1alpha2.PolicyReport`.
    fn model(&self, kind: &str) -> String {
        let group: Vec<&str> = self.definition.group.split('.').rev().collect();
        format!("{}.{}.{kind}", group.join("."), self.version.name)
    }

    fn gvk(&self, kind: &str) -> Value {
        json!({ "group": self.definition.group, "version": self.version.name, "kind": kind })
    }
}

fn index(documents: &BTreeMap<String, Document>) -> Value {
    let paths: Map<String, Value> = documents
        .iter()
        .map(|(path, document)| {
            (
                path.clone(),
                json!({ "serverRelativeURL": OpenApi::url(path, document) }),
            )
        })
        .collect();
    json!({ "paths": paths })
}

fn document(resources: &[Resource<'_>], meta: &Map<String, Value>) -> Value {
    let mut all_paths = Map::new();
    let mut schemas = meta.clone();
    for resource in resources {
        all_paths.append(&mut paths::paths(resource));
        let definition = resource.definition;
        schemas.insert(
            resource.model(&definition.kind),
            kinds::object(resource, meta),
        );
        schemas.insert(
            resource.model(&definition.list_kind),
            kinds::list(resource, meta),
        );
    }
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes CRD Swagger", "version": "v0.1.0" },
        "paths": all_paths,
        "components": { "schemas": schemas },
    })
}

/// Returns a reference to a schema of the same document.
fn reference(model: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{model}") })
}
