//! The task that copies one resource.

use std::collections::HashSet;
use std::time::Duration;

use crds::control::{
    API_VERSION, GateSpec, GateState, ImportBatch, ImportItem, ImportMode, ImportType,
};
use crds::v1alpha1::spec::Verification;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::streams::{Sealed, StreamEvent, Streams};
use super::table::{Change, Table, identify};
use super::{Source, lists};
use crate::migration::cluster::control::retry;
use crate::migration::cluster::endpoints::{Endpoint, EndpointsError};
use crate::migration::cluster::pages::{self, Key};
use crate::migration::cluster::revisions;
use crate::migration::cluster::wire::WireError;

use crate::migration::plan::verified::Verified;
use crate::migration::steps::diff::{self, Difference};
use crate::migration::steps::mirror::batch::{Batcher, Entry, json_size};
use crate::migration::steps::mirror::{self, Progress, WatchState};
use crate::migration::steps::verify::{self, VerifyError};
/// The time for which a batch is tried while the server cannot be reached.
const PATIENCE: Duration = Duration::from_mins(10);
/// Pages that may wait between the list and the copy.
const PAGES: usize = 2;
/// The number of times that a comparison is begun anew because it found something that the watches
/// had not told.
const ROUNDS: u32 = 5;
/// The silence of all watches after which writes under way count as done.
const QUIET: Duration = Duration::from_millis(500);
/// The time that is allowed for that silence.
const QUIET_WITHIN: Duration = Duration::from_secs(10);

/// The reason why a copy has ended.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// A request failed for good.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The kube-apiservers are not known.
    #[error(transparent)]
    Endpoints(#[from] EndpointsError),
    /// An object cannot be stored.
    #[error(
        "the server to take over from has objects of {resource} without name or uid, such as \
         {example}; delete them there"
    )]
    Unusable {
        /// Plural name.
        resource: String,
        /// The first of these objects.
        example: String,
    },
    /// Nobody can tell any more which writes the predecessor got.
    #[error("{0} while the switch was under way")]
    Cut(String),
    /// Requests still reach the predecessor.
    #[error(
        "clients still write {resource} to the server that the group is taken over from, \
         {} s after its APIServices were switched",
        QUIET_WITHIN.as_secs()
    )]
    Busy {
        /// Plural name.
        resource: String,
    },
    /// An APIService was led elsewhere.
    #[error(
        "an APIService was pointed back to the other server during the switch; name that server's \
         account in spec.apis[].from.server.serviceAccount"
    )]
    TakenBack,
    /// The task is gone; its progress names the reason.
    #[error("the copy of {0} has ended")]
    Gone(String),
}

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

    /// Returns an object as a CRD would have given it: with apiVersion and kind.
    fn complete(&mut self, mut object: Value) -> Value {
        let mirror::Source { group, version, .. } = &self.source.common;
        if let Some(map) = object.as_object_mut() {
            map.insert("apiVersion".to_owned(), json!(format!("{group}/{version}")));
            map.insert("kind".to_owned(), json!(self.source.kind));
        }
        self.theirs = pages::version(&object).unwrap_or_default().max(self.theirs);
        if identify(&object).is_none() {
            let named = object["metadata"].to_string();
            self.unusable
                .get_or_insert(named.chars().take(200).collect());
        }
        object
    }

    /// Reads everything while the watches go on, and returns the number of changes that they had
    /// not told.
    async fn pass(&mut self, streams: &mut Streams) -> Result<usize, CopyError> {
        let Some(endpoint) = self.source.common.endpoints.all.first() else {
            return Ok(0);
        };
        self.table.begin_list();
        let read = self.read(endpoint, streams).await;
        let found = match read {
            Ok(found) => found,
            Err(error) => {
                self.table.give_up_list();
                return Err(error);
            }
        };
        let gone = self.table.end_list();
        let found = found + gone.len();
        self.waiting.extend(gone);
        self.flush().await?;
        if let Some(example) = self.unusable.take() {
            let resource = self.source.common.plural.clone();
            return Err(CopyError::Unusable { resource, example });
        }
        let total = self.table.objects().len() as u64;
        self.progress.send_modify(|p| p.total = Some(total));
        Ok(found)
    }

    async fn read(
        &mut self,
        endpoint: &Endpoint,
        streams: &mut Streams,
    ) -> Result<usize, CopyError> {
        let (sender, mut pages) = mpsc::channel(PAGES);
        let source = self.source;
        let list = lists::list(source, endpoint, &sender);
        tokio::pin!(list);
        let (mut found, mut bytes, mut listed) = (0, 0, false);
        loop {
            tokio::select! {
                event = streams.next() => {
                    self.handle(event)?;
                    self.hear_all(streams)?;
                }
                Some(page) = pages.recv() => {
                    for object in page {
                        bytes += json_size(&object) as u64;
                        let object = self.complete(object);
                        let change = self.table.listed(object);
                        found += usize::from(change.is_some());
                        self.waiting.extend(change);
                    }
                }
                done = &mut list, if !listed => {
                    done?;
                    listed = true;
                }
            }
            if listed && pages.is_empty() {
                self.progress.send_modify(|p| p.bytes = bytes);
                return Ok(found);
            }
            self.flush().await?;
        }
    }

    /// Sends the waiting changes to the server.
    async fn flush(&mut self) -> Result<(), CopyError> {
        let mut batcher = Batcher::new(self.source.common.page_size);
        let (mut sent, mut given) = (Vec::new(), HashSet::new());
        self.version += u64::from(!self.waiting.is_empty());
        for change in std::mem::take(&mut self.waiting) {
            let (entry, key) = self.entry(change, &mut given);
            let size = entry.size();
            if !batcher.fits(size) {
                self.send(&mut batcher, &mut sent).await?;
            }
            batcher.push(entry, size);
            sent.push(key);
        }
        self.send(&mut batcher, &mut sent).await
    }

    /// Returns a change with its version: states of different objects may share one, a deletion has
    /// its own.
    fn entry(&mut self, change: Change, given: &mut HashSet<Key>) -> (Entry, (Key, u64)) {
        let key = match &change {
            Change::State(object) => identify(object).map(|(key, _)| key).unwrap_or_default(),
            Change::Gone { key, .. } => key.clone(),
        };
        let deletion = matches!(change, Change::Gone { .. });
        if !given.insert(key.clone()) || deletion {
            self.version += 1;
            *given = HashSet::from([key.clone()]);
        }
        let version = self.version;
        let entry = match change {
            Change::State(mut object) => {
                object["metadata"]["resourceVersion"] = json!(version.to_string());
                if self.mode == ImportMode::Straggler {
                    Entry::Event(ImportType::Modified, object)
                } else {
                    Entry::Object(object)
                }
            }
            Change::Gone { uid, .. } => {
                let object = self.last_state(&key, &uid, version);
                Entry::Event(ImportType::Deleted, object)
            }
        };
        (entry, (key, version))
    }

    /// Returns a deleted object, as far as the server needs it.
    fn last_state(&self, key: &Key, uid: &str, version: u64) -> Value {
        let mirror::Source {
            group,
            version: served,
            ..
        } = &self.source.common;
        let mut metadata =
            json!({"name": key.name, "uid": uid, "resourceVersion": version.to_string()});
        if !key.namespace.is_empty() {
            metadata["namespace"] = json!(key.namespace);
        }
        json!({"apiVersion": format!("{group}/{served}"), "kind": self.source.kind,
            "metadata": metadata})
    }

    async fn send(
        &mut self,
        batcher: &mut Batcher,
        sent: &mut Vec<(Key, u64)>,
    ) -> Result<(), CopyError> {
        let Some((mut batch, _)) = batcher.take() else {
            return Ok(());
        };
        batch.mode = self.mode;
        let mirror::Source {
            control,
            stored,
            group,
            plural,
            pacer,
            metrics,
            ..
        } = &self.source.common;
        if !self.progress.borrow().listed {
            pacer.turn().await;
        }
        let count = batch.items.len() as u64;
        retry(PATIENCE, || control.import(stored, &batch)).await?;
        // What was copied stands for no copy in etcd: nobody is to miss it there.
        let unmark = unmark(&batch);
        retry(PATIENCE, || control.import(stored, &unmark)).await?;
        metrics.copied(group, plural, count);
        for (key, version) in sent.drain(..) {
            self.table.imported(&key, version);
        }
        let version = self.version;
        self.progress.send_modify(|p| {
            p.copied += count;
            p.position = version;
        });
        Ok(())
    }

    /// Compares the predecessor with what was copied, and that with what our server has. The outer
    /// error ends the copy.
    async fn verify(
        &mut self,
        streams: &mut Streams,
    ) -> Result<Result<Verified, VerifyError>, CopyError> {
        let resource = self.source.common.plural.clone();
        let mut rounds = 1;
        loop {
            let found = self.pass(streams).await?;
            if found == 0 {
                break;
            }
            if rounds == ROUNDS {
                let named = vec!["the watches report other objects than the lists".to_owned()];
                return Ok(Err(VerifyError::Differs {
                    resource,
                    count: found,
                    named,
                }));
            }
            rounds += 1;
        }
        let ours = self.table.objects().iter().map(|(key, held)| {
            let side = diff::Side {
                uid: held.uid.as_str().into(),
                version: held.version,
                checksum: Some(held.checksum),
                as_imported: true,
            };
            (key.clone(), side)
        });
        let ours: diff::Snapshot = ours.collect();
        let source = &self.source.common;
        let (differing, verified) =
            verify::compare(source, ours, u64::MAX, Verification::Full).await?;
        if differing.is_empty() {
            return Ok(Ok(verified));
        }
        let named = diff::name_first(differing.iter(), Difference::describe);
        Ok(Err(VerifyError::Differs {
            resource,
            count: differing.len(),
            named,
        }))
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

/// Returns the batch that takes the marks of a batch away.
fn unmark(batch: &ImportBatch) -> ImportBatch {
    let bare = |item: &ImportItem| {
        let meta = &item.object["metadata"];
        let metadata = json!({"namespace": meta["namespace"], "name": meta["name"],
            "uid": meta["uid"]});
        ImportItem {
            type_: ImportType::Object,
            object: json!({"metadata": metadata}),
        }
    };
    ImportBatch {
        mode: ImportMode::Pruned,
        items: batch.items.iter().map(bare).collect(),
        ..empty_batch()
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

#[cfg(test)]
mod tests;
