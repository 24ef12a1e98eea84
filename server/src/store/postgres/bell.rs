//! Telling the other servers that there is something new, and being told.
//!
//! Notifications are no part of a commit: inside one they would have all commits of the database
//! wait for each other. They follow in a statement of their own that waits for no disk. Whoever
//! misses one finds out by the clock.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_postgres::{AsyncMessage, types::Type};

use super::{
    connection::{Connector, Link, STATEMENT},
    error::PostgresError,
};

/// How long a notification may take to come back.
const ECHO: Duration = Duration::from_secs(1);
/// Pause before a connection is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// Pause before it is tried again whether notifications come through.
const PROBE_AGAIN: Duration = Duration::from_mins(5);

const NOTIFY: &str = "SELECT set_config('synchronous_commit', 'off', true),
    pg_notify($1, $2)::text";

/// See the module's documentation.
pub(super) struct Bell {
    channel: String,
    connector: Arc<Connector>,
    /// Newest commit of our own.
    committed: watch::Sender<i64>,
    /// Newest commit that we were told of.
    heard: watch::Sender<u64>,
    listening: AtomicBool,
}

/// Ends a task when nobody needs it any more.
pub(super) struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Bell {
    /// Begins to listen; the tasks do the work.
    pub fn start(connector: Arc<Connector>, cluster: i32) -> (Arc<Self>, [Task; 2]) {
        let this = Arc::new(Self {
            channel: format!("reports_server_{cluster}"),
            connector,
            committed: watch::Sender::new(0),
            heard: watch::Sender::new(0),
            listening: AtomicBool::new(false),
        });
        let tasks = [
            tokio::spawn(Arc::clone(&this).listen()),
            tokio::spawn(Arc::clone(&this).announce()),
        ];
        (this, tasks.map(Task))
    }

    /// Tells the others of a commit. Never waits.
    pub fn ring(&self, seq: i64) {
        if self.is_listening() {
            self.committed.send_replace(seq);
        }
    }

    /// What the others told of.
    pub fn heard(&self) -> watch::Receiver<u64> {
        self.heard.subscribe()
    }

    /// Whether notifications come through.
    pub fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Relaxed)
    }

    /// Sends what is newest, as soon as the one before is sent.
    async fn announce(self: Arc<Self>) {
        let mut committed = self.committed.subscribe();
        let mut link: Option<Link> = None;
        while committed.changed().await.is_ok() {
            let seq = *committed.borrow_and_update();
            let sent = async {
                let open = match link.take() {
                    Some(open) if self.connector.is_current(&open) => open,
                    _ => self.connector.connect().await?,
                };
                self.notify(&open, &seq.to_string()).await?;
                Ok::<_, PostgresError>(open)
            };
            match sent.await {
                Ok(open) => link = Some(open),
                Err(error) => {
                    tracing::debug!(%error, "telling other servers of a commit");
                    sleep(RETRY).await;
                }
            }
        }
    }

    async fn notify(&self, link: &Link, text: &str) -> Result<(), PostgresError> {
        let parameters = [
            (
                &self.channel as &(dyn tokio_postgres::types::ToSql + Sync),
                Type::TEXT,
            ),
            (&text, Type::TEXT),
        ];
        link.query(NOTIFY, &parameters).await.map(drop)
    }

    async fn listen(self: Arc<Self>) {
        loop {
            let pause = match self.hear().await {
                Ok(()) => {
                    tracing::info!(
                        "notifications do not come through; following other servers by polling"
                    );
                    PROBE_AGAIN
                }
                Err(error) => {
                    tracing::debug!(%error, "listening to other servers");
                    RETRY
                }
            };
            self.listening.store(false, Ordering::Relaxed);
            sleep(pause).await;
        }
    }

    /// Listens until the connection is lost: that is an error. Without one, notifications do not
    /// come through.
    async fn hear(&self) -> Result<(), PostgresError> {
        let (session, _) = self.connector.session().await?;
        let (client, mut connection) = (session.client, session.connection);
        let (sender, mut messages) = mpsc::unbounded_channel();
        let _carrier = Task(tokio::spawn(async move {
            while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
                let sent = match message {
                    Ok(AsyncMessage::Notification(n)) => sender.send(Ok(n.payload().to_owned())),
                    Ok(_) => Ok(()),
                    Err(error) => sender.send(Err(error)),
                };
                if sent.is_err() {
                    break;
                }
            }
        }));
        let listen = format!("LISTEN {}", self.channel);
        timeout(STATEMENT, client.batch_execute(&listen))
            .await
            .map_err(|_| PostgresError::Timeout(STATEMENT))??;

        let echo = format!("echo {}", super::line::new_batch());
        let link = self.connector.connect().await?;
        self.notify(&link, &echo).await?;
        link.close().await;
        let heard = async {
            while let Some(message) = messages.recv().await {
                if message? == echo {
                    return Ok(true);
                }
            }
            Ok::<_, PostgresError>(false)
        };
        let comes_through = match timeout(ECHO, heard).await {
            Ok(heard) => heard?,
            Err(_) => false,
        };
        if !comes_through {
            return Ok(());
        }
        tracing::info!("notifications come through; other servers' commits are seen at once");
        self.listening.store(true, Ordering::Relaxed);
        while let Some(message) = messages.recv().await {
            if let Ok(seq) = message?.parse::<u64>() {
                self.heard.send_if_modified(|newest| {
                    let newer = seq > *newest;
                    *newest = seq.max(*newest);
                    newer
                });
            }
        }
        Err(PostgresError::Timeout(Duration::ZERO))
    }
}
