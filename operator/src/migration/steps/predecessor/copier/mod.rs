//! The task that copies one resource.

mod compare;
mod error;
mod read;
mod send;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crds::control::{API_VERSION, GateSpec, GateState, ImportBatch, ImportMode};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

pub use self::error::CopyError;
use self::error::QUIET_WITHIN;
use super::Source;
use super::streams::{Sealed, StreamEvent, Streams};
use super::table::{Change, Table};
use crate::migration::cluster::control::retry;
use crate::migration::cluster::revisions;
use crate::migration::plan::verified::Verified;
use crate::migration::steps::mirror::{self, Progress, WatchState};
use crate::migration::steps::verify::VerifyError;

/// The time for which a batch is tried while the server cannot be reached.
const PATIENCE: Duration = Duration::from_mins(10);
/// The silence of all watches after which writes under way count as done.
const QUIET: Duration = Duration::from_millis(500);

/// The result of a copy when the predecessor is not asked any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Newest version that was given to a copy.
    pub version: u64,
    /// Newest version that the predecessor gave, 0 for none.
    pub theirs: u64,
}

enum Command {
    /// Read everything once more.
    Pass(oneshot::Sender<Result<(), CopyError>>),
    /// Compare everything.
    Verify(oneshot::Sender<Result<Verified, VerifyError>>),
    /// Copy what is under way, and return the result.
    Drain(oneshot::Sender<Result<Drained, CopyError>>),
    /// From now on our server takes writes of its own. What was told since the drain is late.
    Opened,
}

/// A running copy; dropping it ends it.
pub struct Copier {
    resource: String,
    commands: mpsc::Sender<Command>,
}

impl Copier {
    /// Starts to copy. Other steps look at the mirror of it.
    #[must_use]
    pub fn start(source: Source) -> (Self, mirror::Mirror) {
        let (commands, receiver) = mpsc::channel(1);
        let (progress_tx, progress) = watch::channel(Progress::default());
        let (sealed, sealed_rx) = watch::channel(false);
        let resource = source.common.plural.clone();
        let task = tokio::spawn(async move {
            let result = run(source, receiver, &progress_tx, sealed_rx).await;
            progress_tx.send_modify(|p| {
                p.finished = true;
                p.failure = result.err().map(|e| e.to_string());
            });
        });
        let copier = Self { resource, commands };
        let task = AbortOnDropHandle::new(task);
        (copier, mirror::Mirror::of(progress, sealed, task))
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.ok()?;
        answer.await.ok()
    }

    fn gone(&self) -> CopyError {
        CopyError::Gone(self.resource.clone())
    }

    /// Reads everything once more, whatever the watches have told.
    ///
    /// # Errors
    /// See [`CopyError`].
    pub async fn pass(&self) -> Result<(), CopyError> {
        self.ask(Command::Pass)
            .await
            .unwrap_or_else(|| Err(self.gone()))
    }

    /// Compares both sides: every object's uid and content.
    ///
    /// # Errors
    /// See [`VerifyError`].
    pub async fn verify(&self) -> Result<Verified, VerifyError> {
        let resource = self.resource.clone();
        let ended = || Err(VerifyError::MirrorEnded { resource });
        self.ask(Command::Verify).await.unwrap_or_else(ended)
    }

    /// Waits until the writes under way at the predecessor are done and copied.
    ///
    /// # Errors
    /// See [`CopyError`].
    pub async fn drain(&self) -> Result<Drained, CopyError> {
        self.ask(Command::Drain)
            .await
            .unwrap_or_else(|| Err(self.gone()))
    }

    /// Treats everything from now on as late: our server takes it as an ordinary write, unless a
    /// write of its own is newer.
    pub async fn opened(&self) {
        // A copy that has ended tells of nothing late.
        let _ = self.commands.send(Command::Opened).await;
    }
}

/// The state of the task.
struct Copy<'a> {
    source: &'a Source,
    progress: &'a watch::Sender<Progress>,
    table: Table,
    /// Newest version that was given to a copy.
    version: u64,
    theirs: u64,
    mode: ImportMode,
    /// True from the drain to the opening: no mode is right while the gates are being opened, so
    /// changes wait.
    drained: bool,
    waiting: Vec<Change>,
    unusable: Option<String>,
}

async fn run(
    source: Source,
    mut commands: mpsc::Receiver<Command>,
    progress: &watch::Sender<Progress>,
    sealed: Sealed,
) -> Result<(), CopyError> {
    let mut copy = Copy::begin(&source, progress).await?;
    loop {
        let path = source.common.path();
        let mut streams = Streams::open(&source.common.endpoints.all, &path).await?;
        progress.send_modify(|p| p.watch = WatchState::Live);
        let ended = match copy.pass(&mut streams).await {
            Ok(_) => {
                progress.send_modify(|p| p.listed = true);
                copy.follow(&mut streams, &mut commands).await?
            }
            Err(CopyError::Cut(why)) => why,
            Err(error) => return Err(error),
        };
        progress.send_modify(|p| {
            p.watch = WatchState::Ended {
                clean: false,
                at: Instant::now(),
            };
        });
        if *sealed.borrow() {
            return Err(CopyError::Cut(ended));
        }
        tracing::info!(path, ended, "watching and reading the predecessor again");
        tokio::time::sleep(QUIET).await;
    }
}

impl<'a> Copy<'a> {
    /// Tells the server to forget what it has: nobody knows what became of it at the predecessor.
    async fn begin(
        source: &'a Source,
        progress: &'a watch::Sender<Progress>,
    ) -> Result<Self, CopyError> {
        let mirror::Source {
            control,
            stored,
            endpoints,
            ..
        } = &source.common;
        let version = revisions::newest(endpoints).await?;
        let reset = ImportBatch {
            mode: ImportMode::Reset,
            horizon: Some(version.to_string()),
            ..empty_batch()
        };
        retry(PATIENCE, || control.import(stored, &reset)).await?;
        let gate = GateSpec {
            state: GateState::Closed,
            settled: Some(false),
            ..GateSpec::default()
        };
        control.set_gate(stored, gate, PATIENCE).await?;
        Ok(Self {
            source,
            progress,
            table: Table::default(),
            version,
            theirs: 0,
            mode: ImportMode::Mirror,
            drained: false,
            waiting: Vec::new(),
            unusable: None,
        })
    }

    /// Copies what the watches tell until one of them ends, and returns the reason.
    async fn follow(
        &mut self,
        streams: &mut Streams,
        commands: &mut mpsc::Receiver<Command>,
    ) -> Result<String, CopyError> {
        loop {
            tokio::select! {
                event = streams.next() => {
                    let heard = self.handle(event).and_then(|()| self.hear_all(streams));
                    if !self.drained {
                        self.flush().await?;
                    }
                    if let Err(CopyError::Cut(why)) = heard {
                        return Ok(why);
                    }
                }
                command = commands.recv() => match command {
                    Some(command) => {
                        if let Some(why) = self.obey(command, streams).await? {
                            return Ok(why);
                        }
                    }
                    None => std::future::pending().await,
                }
            }
        }
    }

    /// Carries out a command. `Some` when a watch has ended meanwhile.
    async fn obey(
        &mut self,
        command: Command,
        streams: &mut Streams,
    ) -> Result<Option<String>, CopyError> {
        let cut = |error: &CopyError| match error {
            CopyError::Cut(why) => Some(why.clone()),
            _ => None,
        };
        match command {
            Command::Pass(reply) => {
                let result = self.pass(streams).await.map(drop);
                let ended = result.as_ref().err().and_then(cut);
                let _ = reply.send(result);
                Ok(ended)
            }
            Command::Verify(reply) => {
                let resource = self.source.common.plural.clone();
                let (answer, ended) = match self.verify(streams).await {
                    Ok(answer) => (answer, Ok(None)),
                    Err(CopyError::Wire(error)) => (Err(error.into()), Ok(None)),
                    Err(error) => {
                        let ended = cut(&error).map_or(Err(error), |why| Ok(Some(why)));
                        (Err(VerifyError::MirrorEnded { resource }), ended)
                    }
                };
                let _ = reply.send(answer);
                ended
            }
            Command::Drain(reply) => {
                let result = self.drain(streams).await;
                self.drained = result.is_ok();
                let ended = result.as_ref().err().and_then(cut);
                let _ = reply.send(result);
                Ok(ended)
            }
            Command::Opened => {
                self.mode = ImportMode::Straggler;
                self.drained = false;
                self.flush().await?;
                Ok(None)
            }
        }
    }

    /// Handles an event of a watch.
    fn handle(&mut self, event: StreamEvent) -> Result<(), CopyError> {
        match event {
            StreamEvent::Event(type_, object) => {
                let object = self.complete(object);
                let change = self.table.event(type_, object);
                self.waiting.extend(change);
                Ok(())
            }
            StreamEvent::Ended(why) => Err(CopyError::Cut(why)),
        }
    }

    fn hear_all(&mut self, streams: &mut Streams) -> Result<(), CopyError> {
        let limit = self.source.common.page_size as usize;
        while self.waiting.len() < limit {
            match streams.try_next() {
                Some(event) => self.handle(event)?,
                None => break,
            }
        }
        Ok(())
    }

    /// Waits until the watches are quiet.
    async fn drain(&mut self, streams: &mut Streams) -> Result<Drained, CopyError> {
        let until = Instant::now() + QUIET_WITHIN;
        while Instant::now() < until {
            match tokio::time::timeout(QUIET, streams.next()).await {
                Ok(event) => {
                    self.handle(event)?;
                    self.hear_all(streams)?;
                    self.flush().await?;
                }
                Err(_) => {
                    return Ok(Drained {
                        version: self.version,
                        theirs: self.theirs,
                    });
                }
            }
        }
        let resource = self.source.common.plural.clone();
        Err(CopyError::Busy { resource })
    }
}

/// Returns a batch without any items.
pub fn empty_batch() -> ImportBatch {
    ImportBatch {
        api_version: API_VERSION.to_owned(),
        kind: "ImportBatch".to_owned(),
        ..ImportBatch::default()
    }
}
