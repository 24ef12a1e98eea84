//! An open connection.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tokio::task::JoinHandle;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Error, SimpleQueryMessage, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::parameters::{Endpoint, TargetSessionAttrs};
use crate::version::ServerVersion;

/// The part that carries the messages of a client; a task has to poll it.
pub type Connection =
    tokio_postgres::Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// The task that polls a [`Connection`]. It ends when its client is dropped or the connection is
/// lost.
pub type ConnectionTask = JoinHandle<Result<(), Error>>;

/// An open connection that no task polls yet, so that whoever needs notifications can poll it for
/// messages.
pub struct Session {
    /// The client, which takes the statements.
    pub client: Client,
    /// The connection, which carries them.
    pub connection: Connection,
    /// The host of the connection, among the parameters.
    pub endpoint: Endpoint,
    /// The version that the server reports.
    pub version: ServerVersion,
    /// True when [`ConnectOptions::settings`](crate::ConnectOptions::settings) are in force. A
    /// connection pooler may refuse them; they are left out then.
    pub settings_in_force: bool,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("endpoint", &self.endpoint)
            .field("version", &self.version)
            .field("settings_in_force", &self.settings_in_force)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Has the connection polled by a task of its own. Notices are logged, notifications are
    /// dropped.
    #[must_use]
    pub fn spawn(self) -> (Client, ConnectionTask) {
        (self.client, tokio::spawn(self.connection))
    }
}

/// The reason why a session will not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsuitable {
    /// The server is a standby.
    Standby,
    /// The transactions are read-only.
    ReadOnly,
}

/// Returns the reason why a session is not of the kind that was asked for; `None` where it is. The
/// server is asked, although PostgreSQL 14 tells it with its greeting: a pooler greets with what it
/// heard when it was started itself.
///
/// # Errors
/// If the connection is lost, or the question is refused.
pub(crate) async fn unsuitable(
    client: &Client,
    connection: &mut Connection,
    wanted: TargetSessionAttrs,
) -> Result<Option<Unsuitable>, Error> {
    const QUESTION: &str = "SELECT pg_catalog.pg_is_in_recovery(), \
                            pg_catalog.current_setting('transaction_read_only')";
    if wanted == TargetSessionAttrs::Any {
        return Ok(None);
    }
    let answer = drive(connection, client.simple_query(QUESTION)).await?;
    let answer = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some((row.get(0), row.get(1))),
        _ => None,
    });
    let read_only = wanted == TargetSessionAttrs::ReadWrite;
    Ok(match answer {
        Some((Some("t"), _)) => Some(Unsuitable::Standby),
        Some((_, Some("on"))) if read_only => Some(Unsuitable::ReadOnly),
        _ => None,
    })
}

/// Polls the connection for as long as a statement needs.
async fn drive<T>(
    connection: &mut Connection,
    statement: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let mut statement = pin!(statement);
    poll_fn(|cx| {
        loop {
            if let Poll::Ready(result) = statement.as_mut().poll(cx) {
                return Poll::Ready(result);
            }
            match connection.poll_message(cx) {
                Poll::Ready(Some(Ok(AsyncMessage::Notice(notice)))) => {
                    tracing::debug!(%notice, "notice of the database");
                }
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                // A connection ends without an error only after its client, which is still there;
                // should it ever, the time limit of the attempt ends this.
                Poll::Ready(None) => return Poll::Pending,
                Poll::Pending => return statement.as_mut().poll(cx),
            }
        }
    })
    .await
}
