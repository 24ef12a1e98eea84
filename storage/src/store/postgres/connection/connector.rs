//! Opening connections.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use database::{ConnectOptions, ParametersReader, Reading, Session};
use tokio::sync::watch;

use super::super::error::PostgresError;
use super::super::place::Place;
use super::{LONG_STATEMENT, PgConnection, STATEMENT};

/// Time for which parameters that cannot be read any more are still used: a Secret is being
/// replaced.
const GRACE: Duration = Duration::from_mins(5);
/// Longest time to connect.
const CONNECT: Duration = Duration::from_secs(3);
/// Longest time for one host.
const CONNECT_HOST: Duration = Duration::from_secs(2);

/// Opens connections, with the parameters of that moment.
///
/// The parts of a Secret and what the database knows change at different times. So parameters that
/// lead to the same place come into force with the first connection that is opened with them: until
/// then the connections that are open stay in use.
pub(in crate::store::postgres) struct Connector {
    reader: ParametersReader,
    options: ConnectOptions,
    /// The parameters in force: connections with older ones are outdated.
    in_force: watch::Sender<Option<Reading>>,
    /// The revision of the newest parameters that were tried before they were needed.
    tried: AtomicU64,
    /// The cluster's place, once it is known: every later connection has to lead to it.
    place: OnceLock<Place>,
    /// The words for where the newest connection led, if not to that place.
    elsewhere: Mutex<Option<String>>,
}

impl Connector {
    pub fn new(directory: &Path, application_name: &str) -> Self {
        let mut options = ConnectOptions::new(application_name)
            .idle_in_transaction_timeout(STATEMENT * 2)
            .statement_timeout(LONG_STATEMENT);
        options.attempt_timeout = CONNECT_HOST;
        options.total_timeout = CONNECT;
        Self {
            reader: ParametersReader::new(directory),
            options,
            in_force: watch::Sender::new(None),
            tried: AtomicU64::new(0),
            place: OnceLock::new(),
            elsewhere: Mutex::default(),
        }
    }

    /// Opens a connection that nobody polls yet. Whether its parameters work for more than that is
    /// not known.
    pub async fn session(&self) -> Result<(Session, u64), PostgresError> {
        let reading = self.read()?;
        let session = self.establish(&reading).await?;
        Ok((session, reading.revision))
    }

    /// Opens a connection, and makes sure that it leads to the cluster's place.
    pub async fn connect(&self) -> Result<PgConnection, PostgresError> {
        let reading = self.read()?;
        self.connect_with(&reading).await
    }

    async fn connect_with(&self, reading: &Reading) -> Result<PgConnection, PostgresError> {
        let session = self.establish(reading).await?;
        let connection = PgConnection::new(session, reading.revision);
        if let Some(place) = self.place.get() {
            let checked = place.check(&connection).await;
            self.note(checked.as_ref().err());
            checked?;
        }
        self.put_in_force(reading, |_| true);
        Ok(connection)
    }

    async fn establish(&self, reading: &Reading) -> Result<Session, PostgresError> {
        Ok(database::establish(&reading.parameters, &self.options).await?)
    }

    /// Reads the parameters. Those that lead elsewhere are in force at once.
    fn read(&self) -> Result<Reading, PostgresError> {
        let reading = self.reader.read_or_last(GRACE)?;
        self.put_in_force(&reading, |present| {
            !reading.parameters.leads_where(&present.parameters)
        });
        Ok(reading)
    }

    /// Puts parameters in force, where they are newer than the present ones and `condition` holds.
    fn put_in_force(&self, reading: &Reading, condition: impl Fn(&Reading) -> bool) {
        self.in_force.send_if_modified(|present| {
            let replaces = match present {
                Some(present) => reading.revision > present.revision && condition(present),
                None => true,
            };
            if replaces {
                *present = Some(reading.clone());
            }
            replaces
        });
    }

    /// Notes where a connection has led: `error` is that of the check of its place.
    fn note(&self, error: Option<&PostgresError>) {
        let words = match error {
            Some(PostgresError::OtherDatabase(other)) => Some(other.to_string()),
            // It is not known.
            Some(_) => return,
            None => None,
        };
        let mut known = self
            .elsewhere
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if words.is_some() && *known != words {
            tracing::error!(
                error = words,
                "nothing is read from this database or written to it; reads that need none go on"
            );
        }
        *known = words;
    }

    /// Returns the words for where the newest connection led, if not to the cluster's place.
    pub fn elsewhere(&self) -> Option<String> {
        self.elsewhere
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Has every later connection lead to `place`.
    pub fn hold_to(&self, place: Place) {
        self.place.get_or_init(|| place);
    }

    /// Reads the parameters again, and has those that are new tried beside what else goes on.
    /// Connections with older ones are replaced as they become idle.
    pub fn refresh(self: &Arc<Self>) {
        let reading = match self.read() {
            Ok(reading) => reading,
            Err(error) => {
                // Those who need a connection say so; the open ones go on.
                tracing::debug!(%error, "reading the database's parameters again");
                return;
            }
        };
        if self.revision() >= reading.revision {
            return;
        }
        let this = Arc::clone(self);
        tokio::spawn(async move { this.try_out(&reading).await });
    }

    /// Puts parameters in force if they work.
    async fn try_out(&self, reading: &Reading) {
        let first = self.tried.swap(reading.revision, Ordering::Relaxed) != reading.revision;
        match self.connect_with(reading).await {
            Ok(connection) => connection.close().await,
            Err(error) if first => tracing::warn!(
                %error,
                "the new parameters of the database do not work yet; open connections go on"
            ),
            Err(error) => tracing::debug!(%error, "trying the new parameters of the database"),
        }
    }

    /// Returns the revision of the parameters in force; 0 before the first were read.
    fn revision(&self) -> u64 {
        revision_of(self.in_force.borrow().as_ref())
    }

    /// Returns whether `connection` may be used for the next statement.
    pub fn is_current(&self, connection: &PgConnection) -> bool {
        !connection.client.is_closed() && connection.revision >= self.revision()
    }

    /// Waits until newer parameters than those of `revision` are in force.
    pub async fn newer_than(&self, revision: u64) {
        let mut in_force = self.in_force.subscribe();
        // The sender lives as long as `self`.
        let _ = in_force
            .wait_for(|present| revision_of(present.as_ref()) > revision)
            .await;
    }

    /// Waits until `connection` is of older parameters than those in force; for ever without one.
    pub async fn outdates(&self, connection: Option<&PgConnection>) {
        match connection {
            Some(connection) => self.newer_than(connection.revision).await,
            None => std::future::pending().await,
        }
    }
}

fn revision_of(in_force: Option<&Reading>) -> u64 {
    in_force.map_or(0, |reading| reading.revision)
}
