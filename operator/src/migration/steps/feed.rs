//! The server's writes while the way back is under way: its own log of changes, followed by a
//! watch. So a deletion is known as one, and a pass looks only at what has changed since the last.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::migration::cluster::control::retry;
use crate::migration::cluster::pages::{self, Key, identity};
use crate::migration::cluster::wire::{RawEvent, WatchStream, Wire, WireError, query};

/// The time for which the watch is tried to be resumed.
const PATIENCE: Duration = Duration::from_secs(20);
/// Changes whose objects are kept; of more only the keys are, and the objects are read again.
const KEPT: usize = 250;
/// The reason why a watch that somebody else answers tells nothing of the server's changes.
const SERVED_BY_CRD: &str = "it is served by its CRD";

/// The reason why the changes of the server are not known.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The watch cannot be opened.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The watch cannot be resumed.
    #[error("the server's changes of {path} cannot be followed: {message}")]
    Lost {
        /// Path of the watch.
        path: String,
        /// The reason.
        message: String,
    },
    /// The watch does not reach the version that is asked for.
    #[error("{path}: the server's changes up to version {version} did not arrive within {} s", .within.as_secs())]
    Late {
        /// Path of the watch.
        path: String,
        /// The version that was waited for.
        version: u64,
        /// The time of the wait.
        within: Duration,
    },
}

/// The change of one object since the changes were last taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The text of the newest state, or of the last one before the object was deleted; absent where
    /// it has to be read.
    pub object: Option<Box<str>>,
    /// True when the object is gone.
    pub deleted: bool,
    /// True when the object was created since.
    pub created: bool,
}

/// Changes by key, and the version that they reach.
#[derive(Debug, Default)]
struct State {
    changes: HashMap<Key, Change>,
    position: u64,
    /// The version at which the changes are cut in two, and the changes up to there.
    cut: Option<u64>,
    before: Option<HashMap<Key, Change>>,
    lost: Option<String>,
    /// The number of times that the watch was resumed.
    resumed: u32,
}

impl State {
    fn event(&mut self, event: &RawEvent) -> Result<(), String> {
        let at = pages::version(&event.object).ok_or("an event without a resourceVersion")?;
        let (deleted, created) = match event.type_.as_str() {
            "BOOKMARK" => {
                self.position = self.position.max(at);
                self.cut_behind(self.position);
                return Ok(());
            }
            "ADDED" => (false, true),
            "MODIFIED" => (false, false),
            "DELETED" => (true, false),
            _ => return Err(event.object.to_string()),
        };
        self.cut_behind(at - 1);
        let key = identity(&event.object)
            .ok_or("an event without an object")?
            .key;
        let before = self.changes.get(&key);
        // Created anew under a name that was deleted: for etcd's copy that is a change.
        let created = before.map_or(created, |b| b.created || (created && !b.deleted));
        let kept = before.is_some() || self.changes.len() < KEPT;
        let change = Change {
            object: kept.then(|| event.object.to_string().into()),
            deleted,
            created,
        };
        self.changes.insert(key, change);
        self.position = self.position.max(at);
        Ok(())
    }

    /// Puts the changes aside, if they are known up to the cut; `known` is the version up to which
    /// they are.
    fn cut_behind(&mut self, known: u64) {
        if self.cut.is_some_and(|cut| known >= cut) {
            self.cut = None;
            self.before = Some(std::mem::take(&mut self.changes));
        }
    }
}

/// The changes of one resource from a version on.
pub struct Feed {
    path: String,
    state: watch::Receiver<()>,
    shared: Arc<Mutex<State>>,
    _task: AbortOnDropHandle<()>,
}

impl Feed {
    /// Follows the collection at `path` behind `version`.
    ///
    /// # Errors
    /// See [`FeedError`].
    pub async fn start(wire: &Wire, path: &str, version: u64) -> Result<Self, FeedError> {
        let first = uri(path, version);
        let stream = retry(PATIENCE, || wire.watch(&first)).await?;
        if !stream.is_ours() {
            return Err(FeedError::Lost {
                path: path.to_owned(),
                message: SERVED_BY_CRD.to_owned(),
            });
        }
        let shared = Arc::<Mutex<State>>::default();
        let (wake, state) = watch::channel(());
        let follower = Follower {
            wire: wire.clone(),
            path: path.to_owned(),
            shared: Arc::clone(&shared),
            wake,
        };
        follower.lock().position = version;
        let task = tokio::spawn(follower.run(stream));
        Ok(Self {
            path: path.to_owned(),
            state,
            shared,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// Returns the number of objects that have changed since the changes were last taken.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lock().changes.len()
    }

    /// Returns the number of times that the watch was cut and resumed. Where it is, those of others
    /// are as well.
    #[must_use]
    pub fn resumed(&self) -> u32 {
        self.lock().resumed
    }

    /// Waits until everything up to `version` is known. The server tells of versions at which
    /// nothing happens by bookmarks.
    ///
    /// # Errors
    /// See [`FeedError`].
    pub async fn until(&self, version: u64, within: Duration) -> Result<(), FeedError> {
        let mut state = self.state.clone();
        let reached = async {
            loop {
                state.borrow_and_update();
                {
                    let known = self.lock();
                    if let Some(message) = &known.lost {
                        return Err(self.lost(message));
                    }
                    if known.position >= version {
                        return Ok(());
                    }
                }
                if state.changed().await.is_err() {
                    return Err(self.lost("its task has ended"));
                }
            }
        };
        match tokio::time::timeout(within, reached).await {
            Ok(done) => done,
            Err(_) => Err(FeedError::Late {
                path: self.path.clone(),
                version,
                within,
            }),
        }
    }

    /// Cuts the changes in two behind `version`; see [`Feed::take_before_cut`].
    pub fn cut(&self, version: u64) {
        let mut state = self.lock();
        state.before = None;
        state.cut = Some(version);
        let position = state.position;
        state.cut_behind(position);
    }

    /// Takes the changes up to the version of the cut, once all of them are known.
    ///
    /// # Errors
    /// See [`FeedError`].
    pub async fn take_before_cut(
        &self,
        version: u64,
        within: Duration,
    ) -> Result<HashMap<Key, Change>, FeedError> {
        self.until(version, within).await?;
        let mut state = self.lock();
        state.cut_behind(version);
        Ok(state.before.take().unwrap_or_default())
    }

    /// Takes the changes.
    ///
    /// # Errors
    /// [`FeedError::Lost`].
    pub fn take(&self) -> Result<HashMap<Key, Change>, FeedError> {
        let mut state = self.lock();
        match &state.lost {
            Some(message) => Err(self.lost(message)),
            None => Ok(std::mem::take(&mut state.changes)),
        }
    }

    fn lost(&self, message: &str) -> FeedError {
        FeedError::Lost {
            path: self.path.clone(),
            message: message.to_owned(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task behind a [`Feed`].
struct Follower {
    wire: Wire,
    path: String,
    shared: Arc<Mutex<State>>,
    wake: watch::Sender<()>,
}

impl Follower {
    async fn run(self, mut stream: WatchStream) {
        loop {
            if let Err(message) = self.pump(&mut stream).await {
                return self.lose(message);
            }
            let from = self.lock().position;
            let again = uri(&self.path, from);
            stream = match retry(PATIENCE, || self.wire.watch(&again)).await {
                Ok(stream) if stream.is_ours() => {
                    self.lock().resumed += 1;
                    stream
                }
                Ok(_) => return self.lose(SERVED_BY_CRD.to_owned()),
                Err(error) => return self.lose(error.to_string()),
            };
        }
    }

    /// Takes events until the watch ends.
    async fn pump(&self, stream: &mut WatchStream) -> Result<(), String> {
        // A watch that breaks is resumed like one that ends: nothing is skipped.
        while let Ok(Some(event)) = stream.next().await {
            self.lock().event(&event)?;
            self.wake.send_replace(());
        }
        Ok(())
    }

    fn lose(&self, message: String) {
        self.lock().lost = Some(message);
        self.wake.send_replace(());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn uri(path: &str, version: u64) -> String {
    query(
        path,
        &[
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", &version.to_string()),
        ],
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(type_: &str, name: &str, version: u64) -> RawEvent {
        RawEvent {
            type_: type_.to_owned(),
            object: json!({"metadata": {"name": name, "uid": name, "namespace": "n",
                "resourceVersion": version.to_string()}}),
        }
    }

    fn after(events: &[(&str, u64)]) -> Change {
        let mut state = State::default();
        for (type_, version) in events {
            state.event(&event(type_, "a", *version)).unwrap();
        }
        let key = Key {
            namespace: "n".into(),
            name: "a".into(),
        };
        state.changes.remove(&key).unwrap()
    }

    #[test]
    fn the_newest_state_of_an_object_counts_and_whether_it_is_new() {
        let change = after(&[("ADDED", 5), ("MODIFIED", 6)]);
        assert!(change.created && !change.deleted);
        let object: Value = serde_json::from_str(&change.object.unwrap()).unwrap();
        assert_eq!(object["metadata"]["resourceVersion"], "6");
        let gone = after(&[("ADDED", 5), ("DELETED", 7)]);
        assert!(gone.created && gone.deleted);
        let anew = after(&[("DELETED", 5), ("ADDED", 7)]);
        assert!(!anew.created && !anew.deleted);
    }

    #[test]
    fn bookmarks_move_the_position_and_errors_end_it() {
        let mut state = State::default();
        state.event(&event("BOOKMARK", "", 9)).unwrap();
        assert_eq!((state.position, state.changes.len()), (9, 0));
        assert!(state.event(&event("ERROR", "a", 9)).is_err());
    }

    #[test]
    fn a_cut_divides_the_changes_whatever_comes_first_behind_it() {
        for (behind, left) in [(event("BOOKMARK", "", 20), 0), (event("ADDED", "b", 25), 1)] {
            let mut state = State::default();
            state.event(&event("ADDED", "a", 5)).unwrap();
            state.cut = Some(20);
            state.event(&behind).unwrap();
            assert_eq!(state.before.unwrap().len(), 1);
            assert_eq!(state.changes.len(), left);
        }
    }

    #[test]
    fn of_too_many_changes_only_the_keys_are_kept() {
        let mut state = State::default();
        for n in 0..=KEPT as u64 {
            state
                .event(&event("ADDED", &format!("a{n}"), n + 1))
                .unwrap();
        }
        let without = state.changes.values().filter(|c| c.object.is_none());
        assert_eq!(without.count(), 1);
    }
}
