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

mod database;
mod digest;
mod fence;
mod floor;
mod gate;
mod import;
mod stored;

pub use database::{
    Database, DatabaseEngine, DatabaseList, DatabaseMove, DatabaseStatus, HISTORY_FILE, MovePhase,
    move_file,
};
pub use digest::{Checksum, Digest, DigestItem, DigestSet, MAX_DIGEST_ITEMS, checksum};
pub use fence::{Fence, FenceStatus};
pub use floor::{Floor, FloorSpec};
pub use gate::{Gate, GateSpec, GateState};
pub use import::{ImportBatch, ImportItem, ImportMode, ImportResult, ImportType, MAX_IMPORT_ITEMS};
pub use stored::{
    SchemaSource, StoredResource, StoredResourceList, StoredResourceStatus, stored_resource_name,
};

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
