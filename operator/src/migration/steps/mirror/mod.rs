//! The mirror of one resource: all that etcd holds, and every event since, sent to our server.
//!
//! A watch is opened as far back as the watch cache reaches, then the list is copied while the
//! watch goes on; the server skips an object of the list where it knows a newer state. The watch
//! was opened on the old handler and is followed until that ends it, in the middle of the switch.

pub mod batch;
mod horizon;
mod importer;
mod reader;

use std::sync::Arc;

use crds::control::{API_VERSION, GateSpec, GateState, ImportBatch, ImportMode};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use self::batch::{Entry, json_size};
use self::importer::{Importer, Sender};
pub use self::reader::uri as watch_uri;
use crate::migration::cluster::control::{Control, retry};
use crate::migration::cluster::endpoints::{Endpoint, Endpoints};
use crate::migration::cluster::pages::{Pacer, Pages};
use crate::migration::cluster::wire::{WatchStream, Wire, WireError, collection};
use crate::migration::report::metrics::Metrics;

/// The number of times that a list is begun anew because etcd has dropped its version meanwhile.
const LIST_ATTEMPTS: u32 = 5;
/// The time for which single requests at the start are tried.
const PATIENCE: std::time::Duration = std::time::Duration::from_mins(2);

/// The reason why a mirror has ended.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// A request failed for good.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The watch has lost its place.
    #[error("the watch has lost its place and the copy starts over: {0}")]
    Expired(#[source] WireError),
    /// An event or an object has no resourceVersion.
    #[error("the kube-apiserver sent an object without a numeric resourceVersion")]
    NoVersion,
    /// The importer ended first; its own error says why.
    #[error("the import has ended")]
    ImporterGone,
    /// No kube-apiserver is known.
    #[error("no kube-apiserver is known")]
    NoEndpoint,
}

/// The resource that is mirrored, and the means.
#[derive(Clone)]
pub struct Source {
    /// API group.
    pub group: String,
    /// The version that is read.
    pub version: String,
    /// Plural name.
    pub plural: String,
    /// Name of the stored resource.
    pub stored: String,
    /// The kube-apiservers.
    pub endpoints: Endpoints,
    /// The control API.
    pub control: Control,
    /// Objects a page.
    pub page_size: u32,
    /// Pace of requests.
    pub pacer: Arc<Pacer>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
}

impl Source {
    /// Returns the path of the resource in the version that is read.
    #[must_use]
    pub fn path(&self) -> String {
        collection(&self.group, &self.version, &self.plural)
    }
}

/// State of the mirror's watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchState {
    /// The watch is not opened yet.
    #[default]
    Opening,
    /// The watch is open.
    Live,
    /// The watch has ended, `clean` when the server ended it between two events.
    Ended {
        /// True when every event before the end has come.
        clean: bool,
        /// The time of the end.
        at: Instant,
    },
}

/// The progress of a mirror.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Objects in etcd, once known.
    pub total: Option<u64>,
    /// Sum of these objects' sizes as JSON, known with `listed`.
    pub bytes: u64,
    /// Objects and events sent.
    pub copied: u64,
    /// True when the whole list is durable at the server.
    pub listed: bool,
    /// Newest version of the watch that is durable at the server.
    pub position: u64,
    /// Newest version of an event that the watch has told.
    pub received: u64,
    /// State of the watch.
    pub watch: WatchState,
    /// True when the task has ended. Everything that the watch told is durable then, unless there
    /// is a `failure`.
    pub finished: bool,
    /// The reason why it ended before its time.
    pub failure: Option<String>,
}

/// A running mirror; dropping it ends it.
pub struct Mirror {
    progress: watch::Receiver<Progress>,
    sealed: watch::Sender<bool>,
    _task: AbortOnDropHandle<()>,
}

impl Mirror {
    /// Starts a mirror. With `resume` it goes on from that version where the watch cache still
    /// has it; else everything at the server is forgotten and copied anew, which the server
    /// takes only while the gate is closed.
    #[must_use]
    pub fn start(source: Source, resume: Option<u64>) -> Self {
        let (progress_tx, progress) = watch::channel(Progress::default());
        let (sealed, sealed_rx) = watch::channel(false);
        let task = tokio::spawn(async move {
            let result = run(&source, resume, &progress_tx, &sealed_rx).await;
            progress_tx.send_modify(|p| {
                p.finished = true;
                p.failure = result.err().map(|e| e.to_string());
            });
        });
        Self {
            progress,
            sealed,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Returns a mirror for a task that another module runs, known by its progress.
    #[must_use]
    pub fn of(
        progress: watch::Receiver<Progress>,
        sealed: watch::Sender<bool>,
        task: AbortOnDropHandle<()>,
    ) -> Self {
        Self {
            progress,
            sealed,
            _task: task,
        }
    }

    /// Returns the present progress.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    /// Returns a receiver that is notified of every change.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }

    /// Makes the end of the watch final from now on, or not. It is sealed before the first
    /// APIService is patched, so that no resumption reaches our own server.
    pub fn seal(&self, sealed: bool) {
        self.sealed.send_replace(sealed);
    }
}

async fn run(
    source: &Source,
    resume: Option<u64>,
    progress: &watch::Sender<Progress>,
    sealed: &watch::Receiver<bool>,
) -> Result<(), MirrorError> {
    let (endpoint, version, stream) = begin(source, resume).await?;
    progress.send_modify(|p| p.position = version);
    let (sender, receiver) = importer::queue();
    let importer = Importer {
        control: source.control.clone(),
        stored: source.stored.clone(),
        labels: (source.group.clone(), source.plural.clone()),
        page_size: source.page_size,
        pacer: Arc::clone(&source.pacer),
        metrics: Arc::clone(&source.metrics),
    };
    let path = source.path();
    let follow = {
        let sender = sender.clone();
        let path = path.clone();
        async move {
            reader::follow(
                &endpoint.wire,
                &path,
                version,
                stream,
                &sender,
                progress,
                sealed,
            )
            .await
        }
    };
    let list = async move { copy_list(source, &endpoint.wire, &path, &sender, progress).await };
    // Both senders are dropped with their futures; that is what ends the importer.
    tokio::try_join!(follow, list, importer.run(receiver, progress)).map(drop)
}

/// Opens the watch and tells the server the version that it reaches back to.
async fn begin(
    source: &Source,
    resume: Option<u64>,
) -> Result<(&Endpoint, u64, WatchStream), MirrorError> {
    let path = source.path();
    let oldest = horizon::oldest(&source.endpoints.all, &path).await?;
    let (endpoint, version, anew) = match (oldest, resume) {
        (Some((endpoint, n)), Some(position)) if n <= position => (endpoint, position, false),
        (Some((endpoint, n)), _) => (endpoint, n, true),
        (None, _) => {
            let endpoint = source
                .endpoints
                .all
                .first()
                .ok_or(MirrorError::NoEndpoint)?;
            let mut pages = Pages::new(&endpoint.wire, path.clone(), 1, true);
            let page = pages.next().await?.ok_or(MirrorError::NoVersion)?;
            (endpoint, page.version, true)
        }
    };
    let uri = reader::uri(&path, version);
    let stream = retry(PATIENCE, || endpoint.wire.watch(&uri)).await?;
    if anew {
        reset(&source.control, &source.stored, Some(version)).await?;
        // Only now: a process that dies before this must not take old history for a copy.
        let gate = GateSpec {
            state: GateState::Closed,
            settled: Some(false),
            ..GateSpec::default()
        };
        source
            .control
            .set_gate(&source.stored, gate, PATIENCE)
            .await?;
    }
    tracing::info!(
        path,
        version,
        anew,
        endpoint = endpoint.address,
        "mirror started"
    );
    Ok((endpoint, version, stream))
}

/// Has the server forget a resource that it does not serve; `horizon` is the version since which it
/// will be told every event.
///
/// # Errors
/// See [`WireError`].
pub async fn reset(control: &Control, stored: &str, horizon: Option<u64>) -> Result<(), WireError> {
    let batch: ImportBatch = ImportBatch {
        api_version: API_VERSION.to_owned(),
        kind: "ImportBatch".to_owned(),
        mode: ImportMode::Reset,
        horizon: horizon.map(|version| version.to_string()),
        ..ImportBatch::default()
    };
    retry(PATIENCE, || control.import(stored, &batch))
        .await
        .map(drop)
}

/// Sends every object of the list.
async fn copy_list(
    source: &Source,
    wire: &Wire,
    path: &str,
    entries: &Sender,
    progress: &watch::Sender<Progress>,
) -> Result<(), MirrorError> {
    for attempt in 1.. {
        match copy_pages(source, wire, path, entries, progress).await {
            Err(MirrorError::Wire(e)) if e.code() == Some(410) && attempt < LIST_ATTEMPTS => {
                tracing::info!(
                    path,
                    "the list took longer than etcd keeps it; listing again"
                );
            }
            done => return done,
        }
    }
    Ok(())
}

async fn copy_pages(
    source: &Source,
    wire: &Wire,
    path: &str,
    entries: &Sender,
    progress: &watch::Sender<Progress>,
) -> Result<(), MirrorError> {
    let mut pages = Pages::new(wire, path.to_owned(), source.page_size, false);
    let (mut objects, mut bytes) = (0, 0);
    loop {
        source.pacer.turn().await;
        let Some(page) = pages.next().await? else {
            break;
        };
        let count = page.items.len() as u64;
        let seen = objects + count + page.remaining.unwrap_or_default();
        progress.send_modify(|p| p.total = Some(seen).max(p.total));
        for item in page.items {
            let object = item.object()?;
            objects += 1;
            bytes += json_size(&object) as u64;
            if !entries.send(Entry::Object(item.into_text())).await {
                return Err(MirrorError::ImporterGone);
            }
        }
    }
    if entries.list_end(objects, bytes).await {
        Ok(())
    } else {
        Err(MirrorError::ImporterGone)
    }
}
