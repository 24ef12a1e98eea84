//! Connections: one that writes, and a few that read beside it.

mod connector;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use database::{ConnectionTask, Session};
use tokio::sync::{Notify, OwnedMutexGuard, Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

pub(super) use self::connector::Connector;
use super::error::PostgresError;

/// Longest time of a statement, as seen from here. Clients wait half a minute at most, and the
/// outcome of a lost statement has to be found out within it as well.
pub(super) const STATEMENT: Duration = Duration::from_secs(5);
/// Longest time of a statement that moves many rows: pages of objects, schema changes.
pub(super) const LONG_STATEMENT: Duration = Duration::from_mins(1);
/// Longest time of a statement that reads a page or tidies up while writes wait behind it.
pub(super) const PAGE_STATEMENT: Duration = Duration::from_secs(15);
/// Longest time of a farewell.
const FAREWELL: Duration = Duration::from_secs(1);

/// A parameter of a statement and its type.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// An open connection.
pub(super) struct PgConnection {
    client: Client,
    task: ConnectionDriver,
    revision: u64,
}

/// The task that drives a connection's messages. A database that hangs must not keep it.
struct ConnectionDriver(ConnectionTask);

impl Drop for ConnectionDriver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl PgConnection {
    /// Starts the task that drives the session's messages.
    pub fn new(session: Session, revision: u64) -> Self {
        let (client, task) = session.spawn();
        Self {
            client,
            task: ConnectionDriver(task),
            revision,
        }
    }

    /// Carries out one statement in one round trip, without preparing it: a pooler may send the
    /// next one to another connection.
    pub async fn query(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, PostgresError> {
        within(STATEMENT, self.client.query_typed(statement, parameters)).await
    }

    /// Carries out one statement like [`PgConnection::query`], with a longer limit.
    pub async fn long_query(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, PostgresError> {
        let rows = self.client.query_typed(statement, parameters);
        within(LONG_STATEMENT, rows).await
    }

    /// Carries out one statement like [`PgConnection::query`], with a slightly longer limit.
    pub async fn page_query(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, PostgresError> {
        let rows = self.client.query_typed(statement, parameters);
        within(PAGE_STATEMENT, rows).await
    }

    /// Carries out a statement; returns the number of rows.
    pub async fn execute(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<u64, PostgresError> {
        within(STATEMENT, self.client.execute_typed(statement, parameters)).await
    }

    /// Prepares a statement under a name.
    pub async fn prepare(&self, statement: &str) -> Result<Statement, PostgresError> {
        within(STATEMENT, self.client.prepare(statement)).await
    }

    /// Carries out a prepared statement without parameters.
    pub async fn prepared(&self, statement: &Statement) -> Result<Vec<Row>, PostgresError> {
        within(STATEMENT, self.client.query(statement, &[])).await
    }

    /// Carries out statements without parameters.
    pub async fn batch(&self, statements: &str, limit: Duration) -> Result<(), PostgresError> {
        within(limit, self.client.batch_execute(statements)).await
    }

    /// Closes the connection with a farewell.
    pub async fn close(self) {
        let Self {
            client, mut task, ..
        } = self;
        drop(client);
        // A database that does not listen any more will find out by itself.
        let _ = timeout(FAREWELL, &mut task.0).await;
    }
}

async fn within<T>(
    limit: Duration,
    statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, PostgresError> {
    match timeout(limit, statement).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(PostgresError::Timeout(limit)),
    }
}

/// The connection that writes; none after an error, so that the next writer connects anew.
pub(super) struct Writer {
    connector: Arc<Connector>,
    slot: Arc<tokio::sync::Mutex<Option<PgConnection>>>,
}

impl Writer {
    pub fn new(connector: Arc<Connector>) -> Self {
        let slot = Arc::default();
        Self { connector, slot }
    }

    /// Takes the connection; a user that is done with it without an error puts it back.
    pub async fn take(&self) -> Result<(PgConnection, Slot), PostgresError> {
        let mut slot = Arc::clone(&self.slot).lock_owned().await;
        match slot.take() {
            Some(connection) if self.connector.is_current(&connection) => {
                Ok((connection, Slot(slot)))
            }
            _ => Ok((self.connector.connect().await?, Slot(slot))),
        }
    }

    /// Closes the connection.
    pub async fn close(&self) {
        if let Some(connection) = self.slot.lock().await.take() {
            connection.close().await;
        }
    }
}

/// The place of the writing connection, which nobody else takes meanwhile.
pub(super) struct Slot(OwnedMutexGuard<Option<PgConnection>>);

impl Slot {
    /// Puts the connection back.
    pub fn put(mut self, connection: PgConnection) {
        *self.0 = Some(connection);
    }
}

/// A few connections that read, opened when they are needed.
pub(super) struct Readers {
    connector: Arc<Connector>,
    permits: Semaphore,
    idle: Mutex<Vec<PgConnection>>,
    /// Number of connections in use.
    in_use: AtomicUsize,
    /// The signal that a connection was returned.
    returned: Notify,
    /// True when a connection was opened since [`Readers::take_opened`].
    opened: AtomicBool,
}

impl Readers {
    pub fn new(connector: Arc<Connector>, max: usize) -> Self {
        Self {
            connector,
            permits: Semaphore::new(max.max(1)),
            idle: Mutex::default(),
            in_use: AtomicUsize::new(0),
            returned: Notify::new(),
            opened: AtomicBool::new(false),
        }
    }

    /// Returns a connection, as soon as one is free. Where no further one can be opened (the
    /// database has none left, or has a certificate that is not known here yet), it waits for one
    /// that is in use.
    pub async fn get(&self) -> Result<Reader<'_>, PostgresError> {
        // The semaphore is never closed.
        let Ok(Ok(permit)) = timeout(STATEMENT, self.permits.acquire()).await else {
            return Err(PostgresError::Timeout(STATEMENT));
        };
        let connection = match self.take_idle() {
            Some(connection) => connection,
            None => match self.connector.connect().await {
                Ok(connection) => {
                    self.opened.store(true, Ordering::Relaxed);
                    connection
                }
                Err(error) => match timeout(STATEMENT, self.next_returned()).await {
                    Ok(Some(connection)) => connection,
                    Ok(None) | Err(_) => return Err(error),
                },
            },
        };
        self.in_use.fetch_add(1, Ordering::Relaxed);
        Ok(Reader {
            connection,
            hand: Hand {
                readers: self,
                _permit: permit,
            },
        })
    }

    /// Returns an idle connection with the parameters that are in force.
    fn take_idle(&self) -> Option<PgConnection> {
        let mut idle = self.lock();
        while let Some(connection) = idle.pop() {
            if self.connector.is_current(&connection) {
                return Some(connection);
            }
        }
        None
    }

    /// Returns a connection that somebody else is done with; `None` once nobody has one.
    async fn next_returned(&self) -> Option<PgConnection> {
        loop {
            let returned = self.returned.notified();
            if let Some(connection) = self.take_idle() {
                // Of several that came back, the others are for others who wait.
                self.returned.notify_one();
                return Some(connection);
            }
            // Those who wait here hold permits, too, but none of them will give back a connection.
            if self.in_use.load(Ordering::Relaxed) == 0 {
                self.returned.notify_one();
                return None;
            }
            returned.await;
        }
    }

    /// Returns whether a connection was opened since the last call: another server may answer now.
    pub fn take_opened(&self) -> bool {
        self.opened.swap(false, Ordering::Relaxed)
    }

    /// Closes idle connections that were opened with parameters that are not in force any more.
    pub fn discard_outdated(&self) {
        self.lock()
            .retain(|connection| self.connector.is_current(connection));
    }

    /// Closes idle connections.
    pub async fn close(&self) {
        let idle = std::mem::take(&mut *self.lock());
        futures::future::join_all(idle.into_iter().map(PgConnection::close)).await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<PgConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that reads. Dropped without [`Reader::keep`] it is closed.
pub(super) struct Reader<'a> {
    connection: PgConnection,
    hand: Hand<'a>,
}

impl Reader<'_> {
    /// Leaves the connection to the next one.
    pub fn keep(self) {
        let Self { connection, hand } = self;
        hand.readers.lock().push(connection);
    }
}

impl std::ops::Deref for Reader<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

/// The right to use one of the connections.
struct Hand<'a> {
    readers: &'a Readers,
    _permit: SemaphorePermit<'a>,
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        self.readers.in_use.fetch_sub(1, Ordering::Relaxed);
        self.readers.returned.notify_one();
    }
}

#[cfg(test)]
mod tests;
