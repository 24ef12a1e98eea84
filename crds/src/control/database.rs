//! The database behind the server, and its move to another database.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// File beside the parameters of the connection to a database: the history of the cluster that the
/// database has to have. A server makes nothing in a database that lacks it. Absent before the first
/// use; [`DatabaseStatus::history`] says it then.
pub const HISTORY_FILE: &str = "history";

/// Files of the directory that tells a server where to move its reports. They are beside
/// the parameters of the connection (see the crate `database`).
pub mod move_file {
    /// Identity of the cluster in the other database. Where it is absent, and [`TO_FILE`] too, nothing
    /// is moved.
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
    /// The order to move the reports to the server's own file. Where it is present, there is no other
    /// database, and only a server that has such a file carries the order out.
    pub const TO_FILE: &str = "to-file";
    /// The order to give the move up. Where it is present, the move ends, unless it is done.
    pub const GIVE_UP: &str = "give-up";
}

/// The database in which the reports are stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Database {
    /// Always [`API_VERSION`](super::API_VERSION).
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
    /// Always [`API_VERSION`](super::API_VERSION).
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
    /// True if the server follows an order to move the reports to another database.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub can_move: bool,
    /// True if it also follows an order to move them to a file of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub can_move_to_file: bool,
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
