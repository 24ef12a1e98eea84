//! A database that is open.

use std::sync::{Arc, Mutex, OnceLock};

use database::ServerVersion;

use super::connection::{Connector, Readers, Writer};
use super::lineage::Lineage;
use super::notifier::{Notifier, Task};
use super::place::Place;
use super::projection::KnownChecks;
use crate::store::moving::rows::Marker;
use crate::store::{DatabaseInfo, PostgresOptions};

/// Connections beside those that read objects and events: one writes, one follows other servers,
/// one listens to them and one tells them.
const RESERVED: usize = 4;

/// A PostgreSQL database, and the place of one cluster in it.
pub(crate) struct Postgres {
    pub(super) connector: Arc<Connector>,
    pub(super) writer: Writer,
    /// Connections that ask for the end of the sequence, and read new commits: never behind a large
    /// page.
    pub(super) follower: Readers,
    pub(super) readers: Readers,
    /// The cluster's number in this database.
    pub(super) cluster: i32,
    /// The cluster's number, with what tells this database from others.
    pub(super) place: Place,
    pub(super) lineage: Lineage,
    pub(super) checks: KnownChecks,
    pub(super) notifier: Arc<Notifier>,
    /// The tasks of the notifier, until the database is closed.
    pub(super) tasks: Mutex<Option<[Task; 2]>>,
    /// The move by which the reports came here, where this server has opened the database by it.
    pub(super) moved_by: OnceLock<Marker>,
    pub(super) greeting: Greeting,
    pub(super) info: OnceLock<DatabaseInfo>,
}

/// The facts that the first connection tells.
#[derive(Clone)]
pub(super) struct Greeting {
    pub version: ServerVersion,
    /// True when its settings were refused.
    pub plain: bool,
}

impl Postgres {
    /// Returns the database with its connections and the tasks that listen and tell.
    pub(super) fn assemble(
        connector: Arc<Connector>,
        greeting: Greeting,
        place: Place,
        options: &PostgresOptions,
    ) -> Self {
        connector.hold_to(place.clone());
        let cluster = place.cluster;
        let (notifier, tasks) = Notifier::start(Arc::clone(&connector), cluster);
        let readers = options.max_connections.saturating_sub(RESERVED);
        Self {
            writer: Writer::new(Arc::clone(&connector)),
            follower: Readers::new(Arc::clone(&connector), 1),
            readers: Readers::new(Arc::clone(&connector), readers),
            connector,
            cluster,
            place,
            lineage: Lineage::default(),
            checks: KnownChecks::default(),
            notifier,
            tasks: Mutex::new(Some(tasks)),
            moved_by: OnceLock::new(),
            greeting,
            info: OnceLock::new(),
        }
    }
}
