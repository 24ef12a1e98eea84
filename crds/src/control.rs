//! The control API, by which the operator asks and orders the server.
//!
//! The server serves these types itself under [`GROUP`]/[`VERSION`]; there is no CRD behind them.
//! `StoredResource` is a cluster-scoped, read-only view of one served resource, named
//! `<plural>.<group>`; everything that changes a resource goes through one of its subresources:
//!
//! | Subresource | Verb | Body | Effect |
//! |---|---|---|---|
//! | `import` | create (POST) | [`ImportBatch`] -> [`ImportResult`] | objects and events of etcd |
//! | `digest` | get | [`Digest`] | what is stored, in pages, to compare with etcd |
//! | `gate` | get, update (PUT) | [`Gate`] | whether requests are refused, held or served |
//! | `fence` | get, create (POST) | [`Fence`] | a fencing token; older ones are then refused |
//! | `floor` | get, update (PUT) | [`Floor`] | raises the resource version counter |
//!
//! `Database` is the one object `database`, read-only: what the reports are stored in, and how far
//! a move of the database has got. Its subresource `copy` is the database itself, where that
//! is a file beside the server.
//!
//! Resource versions are decimal strings, as everywhere in Kubernetes (KEP-5504).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// API group of the control API.
pub const GROUP: &str = "control.reports-server.io";
/// The one version of the control API.
pub const VERSION: &str = "v1alpha1";
/// `apiVersion` of every control object.
pub const API_VERSION: &str = "control.reports-server.io/v1alpha1";
/// Plural name of [`StoredResource`].
pub const PLURAL: &str = "storedresources";

/// Plural name of [`Database`].
pub const DATABASES: &str = "databases";
/// Name of the one [`Database`].
pub const DATABASE_NAME: &str = "database";
/// Subresource of [`Database`]: an embedded database as it is at one moment, as a file of SQLite.
/// Backups are made of it, by clients that connect to the server itself.
pub const COPY: &str = "copy";

/// File beside the parameters of the connection to a database: the history of the cluster that the
/// database has to have. A server makes nothing in a database that lacks it. Absent before the first
/// use; [`DatabaseStatus::history`] says it then.
pub const HISTORY_FILE: &str = "history";

/// Files of the directory that tells a server where to move its reports. They are beside
/// the parameters of the connection (see the crate `database`).
pub mod move_file {
    /// Identity of the cluster in the other database. Where it is absent, nothing is moved.
    pub const CLUSTER_IDENTITY: &str = "cluster-identity";
    /// Name of the cluster for people.
    pub const CLUSTER_NAME: &str = "cluster-name";
    /// Most connections to the other database.
    pub const MAX_CONNECTIONS: &str = "max-connections";
    /// Name of the other database, chosen by whoever asks for the move; told back as
    /// [`DatabaseMove::target`](super::DatabaseMove::target).
    pub const TARGET: &str = "target";
    /// A name that tells the order from every other one: servers that share the database that is
    /// moved know by it which of them have read the order, and which one was given up.
    pub const ORDER: &str = "order";
    /// The order to give the move up. Where it is present, the move ends, unless it is done.
    pub const GIVE_UP: &str = "give-up";
}

/// Most items in one [`ImportBatch`]; a larger batch is refused with 413.
pub const MAX_IMPORT_ITEMS: usize = 1000;
/// Most entries in one [`Digest`] page; a larger `limit` is lowered to it.
pub const MAX_DIGEST_ITEMS: usize = 5000;

/// Returns the name of the `StoredResource` of a resource: `policyreports.wgpolicyk8s.io`.
#[must_use]
pub fn stored_resource_name(plural: &str, group: &str) -> String {
    format!("{plural}.{group}")
}

/// One resource that the server stores, whether it is served already or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredResource {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// Always `StoredResource`.
    pub kind: String,
    /// Name, uid and creationTimestamp; nothing else is set.
    pub metadata: ObjectMeta,
    /// Content of the resource, and its serving.
    pub status: StoredResourceStatus,
}

/// See [`StoredResource`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(
    clippy::struct_excessive_bools,
    reason = "a field of the API each, not the states of one thing"
)]
pub struct StoredResourceStatus {
    /// API group of the stored resource.
    pub group: String,
    /// Plural name of the stored resource.
    pub resource: String,
    /// Kind of the stored resource.
    pub kind: String,
    /// True when objects live in namespaces.
    pub namespaced: bool,
    /// Served versions, preferred first.
    pub versions: Vec<String>,
    /// The origin of the schema in force.
    pub schema_source: SchemaSource,
    /// Number of stored objects.
    pub objects: u64,
    /// Sum of the sizes of their JSON texts, in bytes.
    pub bytes: u64,
    /// The version that a list of this resource would carry now.
    pub resource_version: String,
    /// Oldest version from which a watch can resume; older ones get 410.
    pub horizon: String,
    /// Newest etcd version that was imported or passed over as progress; empty before the first
    /// import.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mirrored_resource_version: String,
    /// Etcd copies that were imported and are not pruned yet.
    pub imported: u64,
    /// The state of the gate.
    pub gate: GateState,
    /// True when the gate was opened since the copy of etcd began: the server may have what etcd
    /// has not, whatever the gate is now.
    #[serde(default)]
    pub opened: bool,
    /// See [`GateSpec::settled`].
    pub settled: bool,
    /// See [`GateSpec::released`].
    #[serde(default)]
    pub released: bool,
    /// The time for which the gate has been held by now, in milliseconds of the server's clock;
    /// absent while it is not held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_milliseconds: Option<u64>,
    /// The time for which it was held the last time, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_hold_milliseconds: Option<u64>,
}

/// Origin of the schema that a resource is validated against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SchemaSource {
    /// The cluster's CRD.
    #[serde(rename = "CRD")]
    Crd,
    /// The schema last in force, from the database.
    Database,
    /// The catalog compiled into the server.
    #[default]
    Catalog,
}

/// List of [`StoredResource`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredResourceList {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// Always `StoredResourceList`.
    pub kind: String,
    /// List metadata.
    pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta,
    /// One entry a resource, sorted by name.
    pub items: Vec<StoredResource>,
}

/// The database in which the reports are stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Database {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// Always `Database`.
    pub kind: String,
    /// The name; nothing else is set.
    pub metadata: ObjectMeta,
    /// Kind and state of the database.
    pub status: DatabaseStatus,
}

/// List of [`Database`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseList {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// Always `DatabaseList`.
    pub kind: String,
    /// List metadata.
    pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta,
    /// The one object.
    pub items: Vec<Database>,
}

/// See [`Database`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseStatus {
    /// The engine of the database.
    pub engine: DatabaseEngine,
    /// Newest change, counted over all resources.
    pub sequence: u64,
    /// Newest version that was given to a write.
    pub resource_version: String,
    /// The history of this cluster in a database that servers share: a random name that was made
    /// when the cluster was first stored there. It goes along with backups, copies and upgrades, so
    /// no other database has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<String>,
    /// The words for another database to which the parameters of the connection lead now. Nothing
    /// is read from there or written to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<String>,
    /// The move to another database, where one is asked for or was made.
    #[serde(default, rename = "move", skip_serializing_if = "Option::is_none")]
    pub move_: Option<DatabaseMove>,
}

/// The engine of a server's database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DatabaseEngine {
    /// A file beside the server.
    #[serde(rename = "SQLite")]
    Sqlite,
    /// A database that servers share.
    #[serde(rename = "PostgreSQL")]
    Postgres,
}

/// The progress of the move of a database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseMove {
    /// The present part of the move.
    pub phase: MovePhase,
    /// See [`move_file::TARGET`].
    pub target: String,
    /// Attempts since the server was started.
    pub attempts: u64,
    /// Objects that the first pass has copied.
    pub objects_copied: u64,
    /// Objects that there were when the first pass began.
    pub objects_total: u64,
    /// Newest change that is copied.
    pub sequence: u64,
    /// The time for which writes waited in the last step, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_milliseconds: Option<u64>,
    /// The last error; empty where there was none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// See [`DatabaseMove`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MovePhase {
    /// An attempt has failed, and the next one is made soon.
    Waiting,
    /// Everything is copied once.
    Copying,
    /// Changes that were made meanwhile are copied.
    Following,
    /// Every object is compared.
    Comparing,
    /// Writes wait while the rest is copied and compared.
    HandingOver,
    /// The reports are in the other database.
    Moved,
    /// Whoever asked for the move has taken the order back in time.
    GivenUp,
    /// The other database cannot be used: a person has to act.
    Refused,
}

/// The way in which requests for a resource's objects are answered. Discovery always answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum GateState {
    /// Not served: 503 with Retry-After; watches are ended. Imports are taken. The state at the
    /// start.
    #[default]
    Closed,
    /// Requests wait, at most 30 s, then 429 with Retry-After. Imports are taken. Reads of the
    /// user who set this state pass, so that the holder can look before it opens or closes. Where
    /// the gate was open before, all reads pass until the resource is released: what is stored is
    /// all there is.
    Held,
    /// Served. Imports are taken in [`ImportMode::Straggler`] only.
    Open,
}

/// Body of the `gate` subresource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gate {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// Always `Gate`.
    pub kind: String,
    /// Name of the stored resource.
    pub metadata: ObjectMeta,
    /// The wanted state.
    pub spec: GateSpec,
}

/// See [`Gate`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GateSpec {
    /// The wanted state; it is durable and survives a restart of the server.
    pub state: GateState,
    /// True once stragglers have been looked for: from then on a difference to etcd is our own
    /// history and not a write that the mirror missed. Absent keeps the stored value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<bool>,
    /// True once etcd has everything that is stored here, while the gate is held: from then on the
    /// only way leads to the CRD, and the gate can be closed but not opened. Absent means false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<bool>,
    /// The version that lists and bookmarks of a released resource carry: etcd's revision, above
    /// all that was written back. A lower one than is in force changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// The fencing token of the client that moves the gate. Where it is not the newest one that was
    /// taken, the gate is left as it is: 409. Absent means that nobody checks, which is for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
}

/// Body of the `fence` subresource: the fencing token of one operator's term.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fence {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// Always `Fence`.
    pub kind: String,
    /// Name of the stored resource.
    pub metadata: ObjectMeta,
    /// The newest token.
    #[serde(default)]
    pub status: FenceStatus,
}

/// See [`Fence`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FenceStatus {
    /// The newest token that was taken. Gates and imports that carry an older one are refused.
    pub token: u64,
}

/// Body of the `floor` subresource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Floor {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// Always `Floor`.
    pub kind: String,
    /// Name of the stored resource.
    pub metadata: ObjectMeta,
    /// The wanted floor.
    pub spec: FloorSpec,
}

/// See [`Floor`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FloorSpec {
    /// The server's next write gets a version above this one. A floor below the present counter
    /// changes nothing; the answer carries the counter that is in force.
    pub resource_version: String,
}

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

/// Body of the `import` subresource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportBatch {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// Always `ImportBatch`.
    pub kind: String,
    /// The meaning of the import.
    #[serde(default)]
    pub mode: ImportMode,
    /// Objects and events in the order in which etcd has them; at most [`MAX_IMPORT_ITEMS`].
    #[serde(default)]
    pub items: Vec<ImportItem>,
    /// Everything up to this etcd version has been sent with this batch (a bookmark).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Oldest etcd version since which every event is sent; watches can resume from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub horizon: Option<String>,
    /// See [`GateSpec::fence`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
}

/// One object or event of etcd.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportItem {
    /// `Object` for an entry of a list, else the type of the watch event.
    #[serde(rename = "type")]
    pub type_: ImportType,
    /// The object as the kube-apiserver gave it; for `Deleted` its last state with the version of
    /// the deletion. For [`ImportMode::Pruned`] its metadata is enough.
    pub object: Value,
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
    /// Always [`API_VERSION`].
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
    /// See [`StoredResourceStatus::mirrored_resource_version`].
    #[serde(default)]
    pub mirrored_resource_version: String,
}

/// Query value `set` of the `digest` subresource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DigestSet {
    /// The objects as they are now.
    #[default]
    Objects,
    /// The etcd copies that were imported and not pruned, with the uid and resourceVersion they
    /// had there, whatever became of the object here since.
    Imported,
}

/// Answer of the `digest` subresource; query parameters `set`, `limit`, `continue`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Digest {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// Always `Digest`.
    pub kind: String,
    /// `resourceVersion` of the snapshot and, before the last page, `continue`.
    pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta,
    /// Sorted by namespace, then name.
    pub items: Vec<DigestItem>,
}

/// One object in a [`Digest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DigestItem {
    /// Namespace; empty for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// uid.
    pub uid: String,
    /// resourceVersion.
    pub resource_version: String,
    /// [`checksum`] of the object in hexadecimal digits; empty in the set `Imported`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub checksum: String,
    /// True while the object is as it was imported: no write of ours has touched it.
    #[serde(default)]
    pub as_imported: bool,
    /// True while an object of this name is stored, whatever its uid; always so in the set
    /// `Objects`.
    #[serde(default)]
    pub stored: bool,
}

/// SHA-256 of an object; see [`checksum`].
pub type Checksum = [u8; 32];

/// Returns the checksum of an object as both sides of a migration compute it: SHA-256 over its
/// compact JSON with sorted keys, without `apiVersion` (the same object reads differently in each
/// served version) and without `metadata.resourceVersion` (compared on its own).
#[must_use]
pub fn checksum(object: &Value) -> Checksum {
    let mut hasher = Sha256::new();
    hash_value(object, 0, &mut hasher);
    hasher.finalize().into()
}

/// Hashes a value. Depth 0 is the object, depth 1 its `metadata` and other top-level fields.
fn hash_value(value: &Value, depth: u8, hasher: &mut Sha256) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            hasher.update(b"{");
            for key in keys {
                if depth == 0 && key == "apiVersion" {
                    continue;
                }
                hasher.update(Value::String(key.clone()).to_string().as_bytes());
                hasher.update(b":");
                match map.get(key) {
                    Some(Value::Object(meta)) if depth == 0 && key == "metadata" => {
                        let mut meta = meta.clone();
                        meta.remove("resourceVersion");
                        hash_value(&Value::Object(meta), 1, hasher);
                    }
                    Some(inner) => hash_value(inner, 1, hasher),
                    None => {}
                }
                hasher.update(b",");
            }
            hasher.update(b"}");
        }
        Value::Array(items) => {
            hasher.update(b"[");
            for item in items {
                hash_value(item, 1, hasher);
                hasher.update(b",");
            }
            hasher.update(b"]");
        }
        scalar => hasher.update(scalar.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::checksum;

    #[test]
    fn checksum_ignores_served_version_and_resource_version_only() {
        let a = json!({"apiVersion": "g/v1", "kind": "K",
            "metadata": {"name": "n", "resourceVersion": "1"}, "spec": {"apiVersion": "x"}});
        let mut b = a.clone();
        b["apiVersion"] = json!("g/v2");
        b["metadata"]["resourceVersion"] = json!("2");
        assert_eq!(checksum(&a), checksum(&b));
        b["spec"]["apiVersion"] = json!("y");
        assert_ne!(checksum(&a), checksum(&b));
        b = a.clone();
        b["metadata"]["labels"] = json!({});
        assert_ne!(checksum(&a), checksum(&b));
    }
}
