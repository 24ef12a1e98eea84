//! Announcements of commits to the other servers, and from them.
//!
//! Notifications are no part of a commit: inside one they would have all commits of the database
//! wait for each other. They follow in a statement of their own that waits for no disk and that
//! nobody waits for. They are hints to look at once, and nothing is concluded from them: a server
//! that misses one finds out by the clock.
//!
//! A message to oneself tests whether they come through; behind a pooler they do not. A server that
//! has heard nothing of another for a while is alone, and tells nobody.

mod message;

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use database::Connection;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, sleep, timeout};
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client};

use self::message::{Message, MessageKind};
use super::connection::{Connector, PgConnection, STATEMENT};
use super::error::PostgresError;

/// Longest time of a message to oneself.
const ECHO: Duration = Duration::from_secs(1);
/// Pause before a connection is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// Pause before messages are tested again.
const PROBE_AGAIN: Duration = Duration::from_mins(1);
/// Interval at which a server says that it is there.
const PRESENT: Duration = Duration::from_secs(30);
/// Silence after which the others are taken to be gone, and a connection on which not even one's
/// own messages arrive to be dead.
const SILENCE: Duration = Duration::from_secs(100);

const NOTIFY: &str = "SELECT set_config('synchronous_commit', 'off', true),
    pg_notify($1, $2)::text";

/// See the module's documentation.
pub(super) struct Notifier {
    channel: String,
    /// The sender of our messages.
    name: u64,
    connector: Arc<Connector>,
    /// Newest commit of our own.
    committed: watch::Sender<u64>,
    /// The signal that a server asks for the others.
    asked: Notify,
    /// Newest commit that another server told of. Each message replaces the one before.
    announced: watch::Sender<u64>,
    /// Our own messages that came back.
    echoes: watch::Sender<u64>,
    /// The time of the last message of each of the other servers.
    peers: Mutex<HashMap<u64, Instant>>,
    /// Number of others that have come, or may have without being announced.
    arrivals: watch::Sender<u64>,
    listening: AtomicBool,
}

/// A task, which ends when this is dropped.
pub(super) struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The reason why listening ended without an error.
enum End {
    /// Messages do not come through.
    Undelivered,
    /// The connection is opened again with the present parameters.
    Replaced,
}

impl Notifier {
    /// Begins to listen; the tasks do the work.
    pub fn start(connector: Arc<Connector>, cluster: i32) -> (Arc<Self>, [Task; 2]) {
        let this = Arc::new(Self {
            channel: format!("reports_server_{cluster}"),
            name: rand::random(),
            connector,
            committed: watch::Sender::new(0),
            asked: Notify::new(),
            announced: watch::Sender::new(0),
            echoes: watch::Sender::new(0),
            peers: Mutex::default(),
            arrivals: watch::Sender::new(0),
            listening: AtomicBool::new(false),
        });
        let tasks = [
            tokio::spawn(Arc::clone(&this).listen()),
            tokio::spawn(Arc::clone(&this).announce()),
        ];
        (this, tasks.map(Task))
    }

    /// Tells the others, if there are any, of a commit. Never waits.
    pub fn notify(&self, seq: u64) {
        if self.is_listening() && self.has_peers() {
            self.committed.send_replace(seq);
        }
    }

    /// Returns the newest commit that the others announced.
    pub fn announced(&self) -> watch::Receiver<u64> {
        self.announced.subscribe()
    }

    /// Returns the number of others that have come, or may have.
    pub fn arrivals(&self) -> watch::Receiver<u64> {
        self.arrivals.subscribe()
    }

    /// Returns whether messages come through.
    pub fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Relaxed)
    }

    fn has_peers(&self) -> bool {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.values().any(|last| last.elapsed() < SILENCE)
    }

    /// Sends the newest commit, as soon as the message before is sent.
    async fn announce(self: Arc<Self>) {
        let mut committed = self.committed.subscribe();
        let mut present = interval(PRESENT);
        let mut open: Option<PgConnection> = None;
        loop {
            let kind = tokio::select! {
                // The sender lives as long as `self`.
                _ = committed.changed() => MessageKind::Commit(*committed.borrow_and_update()),
                () = self.asked.notified() => MessageKind::Present,
                _ = present.tick() => MessageKind::Present,
                () = self.connector.outdates(open.as_ref()) => {
                    open = None;
                    continue;
                }
            };
            if !self.is_listening() {
                continue;
            }
            match self.send(open.take(), kind).await {
                Ok(connection) => open = Some(connection),
                Err(error) => {
                    tracing::debug!(%error, "telling other servers of a commit");
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Sends a message on `open`, where that still works; returns the connection that sent it.
    async fn send(
        &self,
        open: Option<PgConnection>,
        kind: MessageKind,
    ) -> Result<PgConnection, PostgresError> {
        let connection = match open {
            Some(open) if self.connector.is_current(&open) => open,
            _ => self.connector.connect().await?,
        };
        let text = Message {
            from: self.name,
            kind,
        }
        .to_string();
        connection
            .query(NOTIFY, &[(&self.channel, Type::TEXT), (&text, Type::TEXT)])
            .await?;
        Ok(connection)
    }

    async fn listen(self: Arc<Self>) {
        loop {
            let ended = self.listen_once().await;
            self.listening.store(false, Ordering::Relaxed);
            let pause = match ended {
                Ok(End::Replaced) => continue,
                Ok(End::Undelivered) => {
                    tracing::info!(
                        "notifications do not arrive; following other servers by polling"
                    );
                    // Whoever comes meanwhile is not announced.
                    self.arrivals.send_modify(|arrivals| *arrivals += 1);
                    PROBE_AGAIN
                }
                Err(error) => {
                    tracing::debug!(%error, "listening to other servers");
                    RETRY
                }
            };
            sleep(pause).await;
        }
    }

    /// Listens until the connection is lost, which is an error, or is of no use.
    async fn listen_once(&self) -> Result<End, PostgresError> {
        let (session, revision) = self.connector.session().await?;
        tokio::select! {
            lost = self.receive(session.connection) => Err(lost),
            end = self.stay_subscribed(&session.client, revision) => end,
        }
    }

    /// Takes messages until the connection ends.
    async fn receive(&self, mut connection: Connection) -> PostgresError {
        // After its end a connection must not be asked again: it would answer at once, for ever.
        while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
            match message {
                Ok(AsyncMessage::Notification(message)) => self.handle(message.payload()),
                Ok(_) => {}
                Err(error) => return error.into(),
            }
        }
        PostgresError::NoAnswer
    }

    fn handle(&self, text: &str) {
        let Some(message) = Message::parse(text) else {
            return;
        };
        if message.from == self.name {
            self.echoes.send_modify(|echoes| *echoes += 1);
            return;
        }
        self.note_peer(message.from);
        match message.kind {
            MessageKind::Commit(seq) => {
                self.announced.send_replace(seq);
            }
            MessageKind::Question => self.asked.notify_one(),
            MessageKind::Present => {}
        }
    }

    fn note_peer(&self, other: u64) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.retain(|_, last| last.elapsed() < SILENCE);
        if peers.insert(other, Instant::now()).is_none() {
            self.arrivals.send_modify(|arrivals| *arrivals += 1);
        }
    }

    /// Listens, and tests that messages come through, for as long as they do.
    async fn stay_subscribed(&self, client: &Client, revision: u64) -> Result<End, PostgresError> {
        let mut echoes = self.echoes.subscribe();
        let listen = format!("LISTEN {}", self.channel);
        timeout(STATEMENT, client.batch_execute(&listen))
            .await
            .map_err(|_| PostgresError::Timeout(STATEMENT))??;
        // By another connection: within one a pooler hands messages on.
        self.send(None, MessageKind::Question).await?.close().await;
        if timeout(ECHO, echoes.changed()).await.is_err() {
            return Ok(End::Undelivered);
        }
        tracing::info!("notifications arrive; other servers' commits are seen at once");
        self.listening.store(true, Ordering::Relaxed);
        loop {
            tokio::select! {
                () = self.connector.newer_than(revision) => return Ok(End::Replaced),
                echo = timeout(SILENCE, echoes.changed()) => if echo.is_err() {
                    return Err(PostgresError::Timeout(SILENCE));
                }
            }
        }
    }
}
