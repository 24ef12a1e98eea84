//! The import of objects and events of etcd.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::digest::DigestItem;

/// Most items in one [`ImportBatch`]; a larger batch is refused with 413.
pub const MAX_IMPORT_ITEMS: usize = 1000;

/// The meaning of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImportMode {
    /// Keep uid, resourceVersion and everything else; log events under their own version.
    /// Refused with 409 once the gate is open. Idempotent by (uid, resourceVersion).
    #[default]
    Mirror,
    /// Forget all objects, events and imported marks of this resource, then do as `Mirror`.
    /// For a mirror that lost its place. Refused with 409 unless the gate is closed.
    Reset,
    /// A write that reached etcd unseen: applied as an ordinary write with a version of our own,
    /// uid kept, unless a write of ours is newer; then it is kept out and named in the result.
    Straggler,
    /// The etcd copies named by the items are gone (pruned): forget their imported marks.
    Pruned,
    /// The etcd copies named by the items are written from what is stored here: their marks are
    /// what the items say from now on. An item without a uid says that a copy is about to be made,
    /// and stands for one of any uid. Taken while the gate is open or held.
    WrittenBack,
}

/// Body of the `import` subresource, with objects of the form `O`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportBatch<O = Value> {
    /// Always [`API_VERSION`](super::API_VERSION).
    pub api_version: String,
    /// Always `ImportBatch`.
    pub kind: String,
    /// The meaning of the import.
    #[serde(default)]
    pub mode: ImportMode,
    /// Objects and events in the order in which etcd has them; at most [`MAX_IMPORT_ITEMS`].
    #[serde(default = "Vec::new")]
    pub items: Vec<ImportItem<O>>,
    /// Everything up to this etcd version has been sent with this batch (a bookmark).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Oldest etcd version since which every event is sent; watches can resume from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub horizon: Option<String>,
    /// See [`GateSpec::fence`](super::GateSpec::fence).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
}

impl<O> Default for ImportBatch<O> {
    fn default() -> Self {
        Self {
            api_version: String::new(),
            kind: String::new(),
            mode: ImportMode::default(),
            items: Vec::new(),
            progress: None,
            horizon: None,
            fence: None,
        }
    }
}

/// One object or event of etcd.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportItem<O = Value> {
    /// `Object` for an entry of a list, else the type of the watch event.
    #[serde(rename = "type")]
    pub type_: ImportType,
    /// The object as the kube-apiserver gave it; for `Deleted` its last state with the version of
    /// the deletion. For [`ImportMode::Pruned`] its metadata is enough.
    pub object: O,
}

/// See [`ImportItem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImportType {
    /// State from a list; makes no event. Skipped where a newer state or deletion is known.
    Object,
    /// ADDED.
    Added,
    /// MODIFIED.
    Modified,
    /// DELETED.
    Deleted,
}

/// Answer of the `import` subresource; sent after the batch is durable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportResult {
    /// Always [`API_VERSION`](super::API_VERSION).
    pub api_version: String,
    /// Always `ImportResult`.
    pub kind: String,
    /// Items that changed something.
    pub imported: u64,
    /// Items that were known already.
    pub unchanged: u64,
    /// Stragglers kept out because a write of ours is newer.
    #[serde(default)]
    pub conflicts: Vec<DigestItem>,
    /// See [`mirrored_resource_version`](super::StoredResourceStatus::mirrored_resource_version).
    #[serde(default)]
    pub mirrored_resource_version: String,
}
