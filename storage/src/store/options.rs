//! Options of a store.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::MoveOptions;
use crate::cache::RingLimits;

/// Label by which Kyverno looks up the ephemeral reports of a resource, thousands of times a scan.
const KYVERNO_RESOURCE_UID: &str = "audit.kyverno.io/resource.uid";

/// Options of a store; the default of each is meant for production.
#[derive(Clone)]
pub struct StoreOptions {
    /// The database of the objects.
    pub database: Database,
    /// Time for which changes are kept, and so how far back a watch can resume.
    pub history: Duration,
    /// Size that the kept changes may reach before they are dropped earlier, in bytes as the
    /// database keeps them.
    pub history_bytes: u64,
    /// The part of them that is kept in memory as well, per resource.
    pub ring: RingLimits,
    /// Bounds of the queue of the committer.
    pub queue: QueueLimits,
    /// Labels for which an equality selector is answered from an index.
    pub indexed_labels: Vec<String>,
    /// The observer of each commit.
    pub observer: Arc<dyn Observer>,
    /// The etcd of the cluster.
    pub etcd: Arc<dyn Etcd>,
}

impl StoreOptions {
    /// Returns the defaults, with a SQLite database at `path`.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::on(Database::Sqlite(path.into()))
    }

    /// Returns the defaults, on `database`.
    #[must_use]
    pub fn on(database: Database) -> Self {
        Self {
            database,
            history: Duration::from_mins(10),
            history_bytes: 1 << 30,
            ring: RingLimits::default(),
            queue: QueueLimits::default(),
            indexed_labels: vec![KYVERNO_RESOURCE_UID.to_owned()],
            observer: Arc::new(()),
            etcd: Arc::new(()),
        }
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "StoreOptions({}, history {:?})",
            self.database, self.history
        )
    }
}

/// The database of the objects.
#[derive(Clone, Debug)]
pub enum Database {
    /// A file, made if it does not exist, in a directory that exists. For one server.
    Sqlite(PathBuf),
    /// A database that can be moved to another one while it is served.
    Movable(MoveOptions),
    /// A PostgreSQL database, for any number of servers and clusters.
    Postgres(PostgresOptions),
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => path.display().fmt(f),
            Self::Movable(options) => options.from.fmt(f),
            Self::Postgres(options) => {
                write!(f, "PostgreSQL as in {}", options.directory.display())
            }
        }
    }
}

/// Options of PostgreSQL.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// Directory with the parameters of the connection: see [`database::parameters`]. Read again
    /// for each connection.
    pub directory: PathBuf,
    /// Identity that tells this cluster from others in the same database. It must never change.
    pub cluster_identity: String,
    /// Name of the cluster for people; may be empty.
    pub cluster_name: String,
    /// A mark of the cluster that stays the same under every identity, such as the uid of its
    /// namespace `kube-system`: the cluster is not begun anew under another identity. Empty where
    /// that is not known.
    pub cluster_uid: String,
    /// Name that the database shows for its clients.
    pub application_name: String,
    /// Most connections, at least 5.
    pub max_connections: usize,
}

impl PostgresOptions {
    /// Returns the defaults, with parameters from `directory`, for the cluster `cluster_identity`.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>, cluster_identity: impl Into<String>) -> Self {
        Self {
            directory: directory.into(),
            cluster_identity: cluster_identity.into(),
            cluster_name: String::new(),
            cluster_uid: String::new(),
            application_name: "reports-server".to_owned(),
            max_connections: 8,
        }
    }
}

/// Bounds of the queue of the committer. Beyond them requests are refused with 429.
#[derive(Clone, Copy, Debug)]
pub struct QueueLimits {
    /// Most writes.
    pub writes: usize,
    /// Most bytes of their JSON texts.
    pub bytes: usize,
    /// Most imports and other commands of the control API.
    pub commands: usize,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            writes: 4096,
            bytes: 64 << 20,
            commands: 64,
        }
    }
}

/// Observes the work of the committer, for metrics. Called from the committer: must not block.
pub trait Observer: Send + Sync + 'static {
    /// Notes that a transaction with `writes` writes was committed (or failed) after `latency`.
    fn committed(&self, writes: usize, latency: Duration, success: bool);
}

/// Observes nothing.
impl Observer for () {
    fn committed(&self, _: usize, _: Duration, _: bool) {}
}

/// The cause why etcd's revision is not known.
pub type RevisionError = Box<dyn std::error::Error + Send + Sync>;

/// The etcd whose revision the counter of a store follows. It is asked at the start on a database that
/// was put back to an earlier state: clients may hold versions up to its revision.
#[async_trait::async_trait]
pub trait Etcd: Send + Sync + 'static {
    /// Returns the present revision.
    ///
    /// # Errors
    /// If no kube-apiserver tells it.
    async fn revision(&self) -> Result<u64, RevisionError>;
}

/// No etcd: the counter follows writes alone.
#[async_trait::async_trait]
impl Etcd for () {
    async fn revision(&self) -> Result<u64, RevisionError> {
        Ok(0)
    }
}
