//! Opening connections.

use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use database::{ConnectOptions, ParametersReader, Session};
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
pub(in crate::store::postgres) struct Connector {
    reader: ParametersReader,
    options: ConnectOptions,
    /// The newest [`database::Reading::revision`] that was seen.
    revision: watch::Sender<u64>,
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
            revision: watch::Sender::new(0),
            place: OnceLock::new(),
            elsewhere: Mutex::default(),
        }
    }

    /// Opens a connection that nobody polls yet.
    pub async fn session(&self) -> Result<(Session, u64), PostgresError> {
        let reading = self.reader.read_or_last(GRACE)?;
        self.saw(reading.revision);
        let session = database::establish(&reading.parameters, &self.options).await?;
        Ok((session, reading.revision))
    }

    /// Opens a connection, and makes sure that it leads to the cluster's place.
    pub async fn connect(&self) -> Result<PgConnection, PostgresError> {
        let (session, revision) = self.session().await?;
        let connection = PgConnection::new(session, revision);
        if let Some(place) = self.place.get() {
            let checked = place.check(&connection).await;
            self.note(checked.as_ref().err());
            checked?;
        }
        Ok(connection)
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

    /// Reads the parameters again; connections with older ones are replaced as they become idle.
    pub fn refresh(&self) {
        match self.reader.read_or_last(GRACE) {
            Ok(reading) => self.saw(reading.revision),
            // Those who need a connection say so; the open ones go on.
            Err(error) => tracing::debug!(%error, "reading the database's parameters again"),
        }
    }

    /// Returns whether `connection` may be used for the next statement.
    pub fn is_current(&self, connection: &PgConnection) -> bool {
        !connection.client.is_closed() && connection.revision == *self.revision.borrow()
    }

    /// Waits until there are newer parameters than those of `revision`.
    pub async fn newer_than(&self, revision: u64) {
        let mut newest = self.revision.subscribe();
        // The sender lives as long as `self`.
        let _ = newest.wait_for(|newest| *newest > revision).await;
    }

    /// Waits until `connection` is of older parameters than the present ones; for ever without one.
    pub async fn outdates(&self, connection: Option<&PgConnection>) {
        match connection {
            Some(connection) => self.newer_than(connection.revision).await,
            None => std::future::pending().await,
        }
    }

    fn saw(&self, revision: u64) {
        self.revision.send_if_modified(|newest| {
            let newer = revision > *newest;
            *newest = revision.max(*newest);
            newer
        });
    }
}
