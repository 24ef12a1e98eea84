//! The watches on a predecessor, one at each kube-apiserver.

use std::time::Duration;

use crds::control::ImportType;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::migration::cluster::control::retry;
use crate::migration::cluster::endpoints::Endpoint;
use crate::migration::cluster::wire::{RawEvent, WatchStream, WireError, query};

/// The time for which a watch is tried to be opened.
const PATIENCE: Duration = Duration::from_mins(2);
/// Events that may wait: enough for the time that an import takes. A predecessor may stop taking
/// writes while one of its watches is not read.
const QUEUE: usize = 8192;

/// An event or the end of a watch.
#[derive(Debug)]
pub enum StreamEvent {
    /// An event.
    Event(ImportType, Value),
    /// A watch has ended. What it would have told since is in no other watch.
    Ended(String),
}

/// The open watches; dropping them ends them.
pub struct Streams {
    events: mpsc::Receiver<StreamEvent>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

impl Streams {
    /// Opens a watch on the collection at `path` at each of `endpoints`, for changes from now on.
    ///
    /// # Errors
    /// The error of the first watch that cannot be opened.
    pub async fn open(endpoints: &[Endpoint], path: &str) -> Result<Self, WireError> {
        // A version of 0 asks for no history, which a predecessor may not have.
        let uri = query(
            path,
            &[
                ("watch", "1"),
                ("resourceVersion", "0"),
                ("timeoutSeconds", "86400"),
            ],
        );
        let (sender, events) = mpsc::channel(QUEUE);
        let mut tasks = Vec::new();
        for endpoint in endpoints {
            let stream = retry(PATIENCE, || endpoint.wire.watch(&uri)).await?;
            let task = tokio::spawn(pump(stream, endpoint.address.clone(), sender.clone()));
            tasks.push(AbortOnDropHandle::new(task));
        }
        Ok(Self {
            events,
            _tasks: tasks,
        })
    }

    /// Returns watches that tell what comes through `events`.
    #[cfg(test)]
    pub fn of(events: mpsc::Receiver<StreamEvent>) -> Self {
        Self {
            events,
            _tasks: Vec::new(),
        }
    }

    /// Returns the next event of the watches. Cancel safe.
    pub async fn next(&mut self) -> StreamEvent {
        let ended = || StreamEvent::Ended("all watches have ended".to_owned());
        self.events.recv().await.unwrap_or_else(ended)
    }

    /// Returns an event that has come by now, if any.
    pub fn try_next(&mut self) -> Option<StreamEvent> {
        self.events.try_recv().ok()
    }
}

async fn pump(mut stream: WatchStream, address: String, events: mpsc::Sender<StreamEvent>) {
    let why = loop {
        match stream.next().await {
            Ok(Some(event)) => match type_of(&event) {
                Some(type_) => {
                    if events
                        .send(StreamEvent::Event(type_, event.object))
                        .await
                        .is_err()
                    {
                        return;
                    }
                }
                None if event.type_ == "BOOKMARK" => {}
                None => break event.object["message"].to_string(),
            },
            Ok(None) => break "it was ended".to_owned(),
            Err(error) => break error.to_string(),
        }
    };
    let why = format!("the watch at {address}: {why}");
    // A closed channel means that nobody asks any more.
    let _ = events.send(StreamEvent::Ended(why)).await;
}

fn type_of(event: &RawEvent) -> Option<ImportType> {
    match event.type_.as_str() {
        "ADDED" => Some(ImportType::Added),
        "MODIFIED" => Some(ImportType::Modified),
        "DELETED" => Some(ImportType::Deleted),
        _ => None,
    }
}

/// True when the end of the watches is final: set before the APIServices lead elsewhere.
pub type Sealed = watch::Receiver<bool>;
