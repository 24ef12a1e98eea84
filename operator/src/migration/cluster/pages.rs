//! Paged lists, and the identity of an object in them.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

use super::control::retry;
use super::wire::{Wire, WireError, query};
use crate::migration::context::hold_lock::HoldLock;

/// The time for which one page is tried: a CRD that is re-initializing its storage answers 429 for
/// up to 12 s at 18,000 objects, longer at more.
const PATIENCE: Duration = Duration::from_mins(2);

/// Namespace (empty for cluster-scoped kinds) and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Namespace, or empty.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// The identity of one state of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Namespace and name.
    pub key: Key,
    /// uid.
    pub uid: String,
    /// resourceVersion.
    pub version: u64,
}

/// Reads the identity from an object; `None` when a part is missing or not a number.
#[must_use]
pub fn identity(object: &Value) -> Option<Identity> {
    let meta = object.get("metadata")?;
    let text = |key: &str| meta.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(Identity {
        key: Key {
            namespace: text("namespace").unwrap_or_default(),
            name: text("name")?,
        },
        uid: text("uid")?,
        version: version(object)?,
    })
}

/// Returns `metadata.resourceVersion` as a number.
#[must_use]
pub fn version(object: &Value) -> Option<u64> {
    object
        .get("metadata")?
        .get("resourceVersion")?
        .as_str()?
        .parse()
        .ok()
}

/// A pacer that spaces the requests of one group evenly, and stops them while another group holds
/// requests.
pub struct Pacer {
    group: String,
    hold_lock: HoldLock,
    interval: Duration,
    next: Mutex<Instant>,
}

impl Pacer {
    /// Returns a pacer for at most `per_second` requests a second of `group`; no bound when absent
    /// or zero.
    #[must_use]
    pub fn new(group: &str, hold_lock: HoldLock, per_second: Option<u32>) -> Self {
        let interval = per_second
            .and_then(NonZeroU32::new)
            .map_or(Duration::ZERO, |n| Duration::from_secs(1) / n.get());
        Self {
            group: group.to_owned(),
            hold_lock,
            interval,
            next: Mutex::new(Instant::now()),
        }
    }

    /// Waits until no other resource is compared, and returns the turn of this one. A comparison has
    /// a key and a uid of every object in memory, so the memory of the operator follows the largest
    /// resource and not all of them.
    pub async fn comparison(&self) -> OwnedMutexGuard<()> {
        self.hold_lock.comparison().await
    }

    /// Waits for the caller's turn.
    pub async fn turn(&self) {
        self.hold_lock.wait_for_others(&self.group).await;
        if self.interval.is_zero() {
            return;
        }
        let at = {
            let mut next = self.next.lock().await;
            let at = (*next).max(Instant::now());
            *next = at + self.interval;
            at
        };
        tokio::time::sleep_until(at).await;
    }
}

/// The text of an object: as a tree it takes several times the memory.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Text(Box<RawValue>);

impl Text {
    /// Returns the text as JSON.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl From<&Value> for Text {
    fn from(object: &Value) -> Self {
        // A tree can always be written.
        let text = serde_json::value::to_raw_value(object);
        Self(text.unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }
}

impl From<Text> for Box<str> {
    fn from(text: Text) -> Self {
        text.0.into()
    }
}

/// One object of a list, as its text.
#[derive(Debug)]
pub struct Item {
    text: Box<RawValue>,
    /// Path of the list.
    path: Arc<str>,
}

impl Item {
    /// Returns the object.
    ///
    /// # Errors
    /// [`WireError::Decode`] when it is nested too deeply.
    pub fn object(&self) -> Result<Value, WireError> {
        parse(self.text.get(), &self.path)
    }

    /// Returns the text of the object.
    #[must_use]
    pub fn into_text(self) -> Text {
        Text(self.text)
    }
}

/// Returns the object of a text, which is at `path`.
///
/// # Errors
/// [`WireError::Decode`] when it is nested too deeply.
pub fn parse(text: &str, path: &str) -> Result<Value, WireError> {
    serde_json::from_str(text).map_err(|source| WireError::Decode {
        path: path.to_owned(),
        source,
    })
}

/// One page of a list.
#[derive(Debug)]
pub struct Page {
    /// Objects of the page.
    pub items: Vec<Item>,
    /// The version of the whole list.
    pub version: u64,
    /// The number of objects that follow, where the API tells it.
    pub remaining: Option<u64>,
    /// True when our server has answered.
    pub is_ours: bool,
}

/// A list, page by page, all at the version of the first.
pub struct Pages<'a> {
    wire: &'a Wire,
    path: Arc<str>,
    limit: u32,
    metadata_only: bool,
    token: Option<String>,
}

impl<'a> Pages<'a> {
    /// Lists the collection at `path` with `limit` objects a page.
    #[must_use]
    pub fn new(wire: &'a Wire, path: String, limit: u32, metadata_only: bool) -> Self {
        Self {
            wire,
            path: path.into(),
            limit,
            metadata_only,
            token: Some(String::new()),
        }
    }

    /// Returns the next page, or `None` after the last.
    ///
    /// # Errors
    /// See [`WireError`]; transient failures were tried again for two minutes. 410 when the list
    /// took longer than etcd keeps its version: begin anew.
    pub async fn next(&mut self) -> Result<Option<Page>, WireError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Meta {
            #[serde(default)]
            resource_version: String,
            #[serde(default, rename = "continue")]
            token: String,
            remaining_item_count: Option<u64>,
        }
        #[derive(Deserialize)]
        struct List {
            metadata: Meta,
            #[serde(default = "Vec::new", deserialize_with = "null_as_empty")]
            items: Vec<Box<RawValue>>,
        }
        let Some(token) = self.token.take() else {
            return Ok(None);
        };
        let limit = self.limit.to_string();
        let mut pairs = vec![("limit", limit.as_str())];
        if !token.is_empty() {
            pairs.push(("continue", token.as_str()));
        }
        let uri = query(&self.path, &pairs);
        let reply = retry(PATIENCE, || async {
            if self.metadata_only {
                self.wire.get_metadata(&uri).await
            } else {
                self.wire.get(&uri).await
            }
        })
        .await?;
        let is_ours = reply.is_ours();
        let list: List = reply.json()?;
        self.token = Some(list.metadata.token).filter(|t| !t.is_empty());
        let item = |text| Item {
            text,
            path: Arc::clone(&self.path),
        };
        Ok(Some(Page {
            items: list.items.into_iter().map(item).collect(),
            version: list.metadata.resource_version.parse().unwrap_or_default(),
            remaining: list.metadata.remaining_item_count,
            is_ours,
        }))
    }
}

fn null_as_empty<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Vec<Box<RawValue>>, D::Error> {
    Option::<Vec<Box<RawValue>>>::deserialize(d).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn identity_needs_name_uid_and_a_numeric_version() {
        let object = json!({"metadata": {"name": "a", "namespace": "n", "uid": "u",
            "resourceVersion": "12"}});
        let found = identity(&object).unwrap();
        assert_eq!((found.key.to_string().as_str(), found.version), ("n/a", 12));
        for missing in ["name", "uid", "resourceVersion"] {
            let mut broken = object.clone();
            broken["metadata"].as_object_mut().unwrap().remove(missing);
            assert_eq!(identity(&broken), None, "{missing}");
        }
        let odd = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "x"}});
        assert_eq!(identity(&odd), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_pacer_spaces_turns_and_no_bound_does_not_wait() {
        let start = Instant::now();
        let pacer = Pacer::new("a.io", HoldLock::default(), Some(100));
        for _ in 0..6 {
            pacer.turn().await;
        }
        assert!(start.elapsed() >= Duration::from_millis(50));
        let start = Instant::now();
        let free = Pacer::new("a.io", HoldLock::default(), None);
        for _ in 0..1000 {
            free.turn().await;
        }
        assert!(start.elapsed() < Duration::from_millis(50));
    }
}
