//! The few facts that have to be remembered because they can be read nowhere else, in a `ConfigMap`
//! in the operator's namespace: the reason why a group was given back, the imports from a
//! predecessor's database, and the fault points that have fired. Besides, each specification that is
//! carried out, of which there is a copy beside the server.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;

/// Name of the `ConfigMap`.
pub const NAME: &str = "reports-server-operator-notes";

/// The `ConfigMap`.
#[derive(Clone)]
pub struct NoteBook {
    api: Api<ConfigMap>,
}

impl NoteBook {
    /// Returns the notes in `namespace`.
    #[must_use]
    pub fn new(client: kube::Client, namespace: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
        }
    }

    /// Returns a note.
    ///
    /// # Errors
    /// The error of the client.
    pub async fn get(&self, key: &str) -> Result<Option<String>, kube::Error> {
        let map = self.api.get_opt(NAME).await?;
        Ok(map
            .and_then(|m| m.data)
            .and_then(|mut data| data.remove(key)))
    }

    /// Writes a note, or removes it.
    ///
    /// # Errors
    /// The error of the client.
    pub async fn set(&self, key: &str, value: Option<&str>) -> Result<(), kube::Error> {
        let patch = json!({"data": {key: value}});
        match self
            .api
            .patch(NAME, &PatchParams::default(), &Patch::Merge(&patch))
            .await
        {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
        let Some(value) = value else { return Ok(()) };
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some([(key.to_owned(), value.to_owned())].into()),
            ..ConfigMap::default()
        };
        match self.api.create(&PostParams::default(), &map).await {
            // Another group's task has just created it.
            Err(kube::Error::Api(status)) if status.code == 409 => self
                .api
                .patch(NAME, &PatchParams::default(), &Patch::Merge(&patch))
                .await
                .map(drop),
            other => other.map(drop),
        }
    }
}

/// Returns the key of the note with the reason why a group was given back.
#[must_use]
pub fn reverted(group: &str) -> String {
    format!("reverted.{group}")
}

/// Returns the key of the note about the import from the database of a predecessor.
#[must_use]
pub fn import(group: &str) -> String {
    format!("import.{group}")
}
