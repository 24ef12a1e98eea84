//! All reports as a list shows them.

use std::collections::BTreeMap;

use crds::control::checksum;
use http::Request;
use kube::Client;
use serde_json::Value;

use super::{Origin, WitnessError};
use testreports::ReportKind;

/// The identity of an object and its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectState {
    /// uid.
    pub uid: String,
    /// resourceVersion.
    pub version: u64,
    /// [`checksum`] of the whole object.
    pub checksum: String,
    /// [`checksum`] without the fields that a store sets for an object that is created there anew.
    pub content: String,
}

/// Members of the metadata that a store sets: a report that comes back to etcd gets them anew.
const GIVEN: [&str; 5] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
];

impl ObjectState {
    /// Returns the state of an object as a server returned it; a missing version reads as 0.
    #[must_use]
    pub fn of(object: &Value) -> Self {
        let meta = &object["metadata"];
        Self {
            uid: meta["uid"].as_str().unwrap_or_default().to_owned(),
            version: version(object),
            checksum: hex::encode(checksum(object)),
            content: content(object),
        }
    }

    /// Returns whether this is the acknowledged state, as far as that can be kept.
    #[must_use]
    pub fn is(&self, acknowledged: &Self, origin: Origin) -> bool {
        match origin {
            Origin::Kubernetes => self == acknowledged,
            Origin::Incumbent => {
                self.uid == acknowledged.uid && self.content == acknowledged.content
            }
        }
    }
}

fn content(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|name, _| !GIVEN.contains(&name.as_str()));
    }
    hex::encode(checksum(&object))
}

/// Returns the resourceVersion of an object or list, 0 where there is none.
pub fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|v| v.parse().ok())
        .unwrap_or_default()
}

/// Returns namespace and name.
pub fn key(object: &Value) -> (String, String) {
    let text = |field: &str| {
        object["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    (text("namespace"), text("name"))
}

/// All objects by kind, namespace and name.
#[derive(Clone, Debug, Default)]
pub struct State(pub BTreeMap<(ReportKind, (String, String)), ObjectState>);

impl State {
    /// Lists every kind that the cluster serves, in pages.
    ///
    /// # Errors
    /// If a page is not available.
    pub async fn read(client: &Client) -> Result<Self, WitnessError> {
        let mut objects = BTreeMap::new();
        for kind in ReportKind::ALL {
            let mut token = String::new();
            loop {
                let uri = format!("{}?limit=500&continue={token}", kind.path(None));
                let Some(page) = get(client, &uri).await? else {
                    break;
                };
                let (api_version, name) =
                    (format!("{}/{}", kind.group(), kind.version()), kind.kind());
                for item in page["items"].as_array().into_iter().flatten() {
                    let mut item = item.clone();
                    // Entries of a list may leave these out; single objects never do.
                    item["apiVersion"] = Value::String(api_version.clone());
                    item["kind"] = Value::String(name.to_owned());
                    objects.insert((kind, key(&item)), ObjectState::of(&item));
                }
                page["metadata"]["continue"]
                    .as_str()
                    .unwrap_or_default()
                    .clone_into(&mut token);
                if token.is_empty() {
                    break;
                }
            }
        }
        Ok(Self(objects))
    }
}

/// Returns a page, or `None` where the kind is not served.
async fn get(client: &Client, uri: &str) -> Result<Option<Value>, WitnessError> {
    let failed = |reason: String| WitnessError::Request {
        doing: "list reports",
        reason,
    };
    let request = Request::get(uri)
        .body(Vec::new())
        .map_err(|error| failed(error.to_string()))?;
    match client.request::<Value>(request).await {
        Ok(page) => Ok(Some(page)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        // The "404 page not found" of a path that nobody serves is not a Status.
        Err(kube::Error::SerdeError(_)) => Ok(None),
        Err(error) => Err(failed(error.to_string())),
    }
}
