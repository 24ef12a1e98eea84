//! Events, which watches deliver.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::model::{Labels, StoredObject};

/// Kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// The object was created.
    Added,
    /// The object was changed.
    Modified,
    /// The object was deleted.
    Deleted,
}

/// The state before an event; a watch with a selector needs it to tell whether an object came
/// into its view or left it.
#[derive(Clone, Debug)]
pub enum Previous {
    /// There was none.
    None,
    /// The object before the event.
    Known(Arc<StoredObject>),
    /// The labels that it had; the rest has left the change log, or was never seen.
    Labels(Labels),
    /// Not known. Only for imported events that are older than the first listing of the object.
    Unknown,
}

impl Previous {
    /// Returns the object before the event, where it is known.
    #[must_use]
    pub fn object(&self) -> Option<&Arc<StoredObject>> {
        match self {
            Self::Known(object) => Some(object),
            Self::None | Self::Labels(_) | Self::Unknown => None,
        }
    }

    /// Returns the labels that it had, where they are known.
    #[must_use]
    pub fn labels(&self) -> Option<&Labels> {
        match self {
            Self::Known(object) => Some(&object.labels),
            Self::Labels(labels) => Some(labels),
            Self::None | Self::Unknown => None,
        }
    }

    /// Returns the memory held, in bytes.
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Known(object) => object.memory(),
            Self::Labels(labels) => labels.memory(),
            Self::None | Self::Unknown => 0,
        }
    }
}

/// Most encodings of one event that are kept for other watchers.
const MAX_FRAMES: usize = 8;

/// One change of one object.
#[derive(Debug)]
pub struct Event {
    /// Kind of change.
    pub type_: EventType,
    /// Place in the order of commits over all resources.
    pub seq: u64,
    /// The object after the change, for a deletion its last state; its `rv` is the event's.
    pub object: Arc<StoredObject>,
    /// The object before the change.
    pub previous: Previous,
    /// Encodings by their names, while the event is young.
    frames: Mutex<Vec<(Box<str>, Bytes)>>,
    /// False once the event is old: a late watcher's encodings are not kept.
    young: AtomicBool,
}

impl Event {
    /// Returns an event.
    #[must_use]
    pub fn new(type_: EventType, seq: u64, object: Arc<StoredObject>, previous: Previous) -> Self {
        let (frames, young) = (Mutex::default(), AtomicBool::new(true));
        Self {
            type_,
            seq,
            object,
            previous,
            frames,
            young,
        }
    }

    /// Returns the resourceVersion of the event.
    #[must_use]
    pub fn rv(&self) -> u64 {
        self.object.rv
    }

    /// Returns the encoding named `form` (event type, served version, media type, …), made by
    /// `encode` for the first watcher that asks and shared with those who follow it closely.
    ///
    /// # Errors
    /// The errors of `encode`; nothing is kept then.
    pub fn frame<E>(
        &self,
        form: &str,
        encode: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, frame)) = frames.iter().find(|(f, _)| &**f == form) {
            return Ok(frame.clone());
        }
        let frame = encode()?;
        if frames.len() < MAX_FRAMES && self.young.load(Ordering::Relaxed) {
            frames.push((form.into(), frame.clone()));
        }
        Ok(frame)
    }

    /// Drops the encodings for good: they are many times larger than the event.
    pub(super) fn age(&self) {
        self.young.store(false, Ordering::Relaxed);
        *self.frames.lock().unwrap_or_else(PoisonError::into_inner) = Vec::new();
    }
}

/// The effect of a change in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// An event that also changes the present state: every ordinary write.
    EventAndState,
    /// An imported event that is older than the state that a listing brought already.
    Event,
    /// State from a listing, which makes no event.
    State,
}

/// The state before a change, as the database names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreviousRef {
    /// There was none.
    None,
    /// It had this version and these labels.
    At { rv: u64, labels: Labels },
    /// It had these labels; the rest is not known.
    Labels(Labels),
    /// Not known.
    Unknown,
}

/// A committed change, on its way into the cache.
#[derive(Clone, Debug)]
pub struct Change {
    /// See [`Event::type_`].
    pub type_: EventType,
    /// The effect of the change.
    pub effect: Effect,
    /// See [`Event::seq`].
    pub seq: u64,
    /// See [`Event::object`].
    pub object: Arc<StoredObject>,
    /// The state before the change.
    pub previous: PreviousRef,
}
