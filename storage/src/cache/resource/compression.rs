//! The dictionary of a resource, and compressing its objects anew with it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Resource;
use super::state::State;
use crate::cache::{Compression, Recompressed};
use crate::model::{Dictionary, ObjectKey, StoredObject};

/// Objects whose bodies were compressed with an older dictionary.
#[derive(Debug, Default)]
pub(crate) struct Outdated {
    pub objects: Vec<Arc<StoredObject>>,
    /// The object that was looked at last; `None` at the end.
    pub reached: Option<ObjectKey>,
}

impl Resource {
    /// Returns the dictionary that new bodies are compressed with.
    pub(crate) fn dictionary(&self) -> Arc<Dictionary> {
        self.dictionary.load_full()
    }

    /// Takes a dictionary for new bodies, unless there is a newer one. The bodies that are there
    /// keep theirs.
    pub(crate) fn set_dictionary(&self, dictionary: Arc<Dictionary>) {
        if dictionary.generation() > self.dictionary.load().generation() {
            self.dictionary.store(dictionary);
        }
    }

    /// Counts a training.
    pub(crate) fn count_training(&self) {
        self.trainings.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the figures of the compression.
    pub(crate) fn compression(&self) -> Compression {
        self.compression_of(&self.read())
    }

    /// Returns the figures of the compression of the objects in `state`.
    pub(super) fn compression_of(&self, state: &State) -> Compression {
        let dictionary = self.dictionary.load();
        let generation = dictionary.generation();
        Compression {
            generation,
            // The one that is compiled in belongs to all resources.
            dictionary_bytes: if generation > 0 {
                dictionary.memory()
            } else {
                0
            },
            trainings: self.trainings.load(Ordering::Relaxed),
            all: state.contents.bodies(),
            newest: state.contents.bodies_of(generation),
        }
    }

    /// Returns the outdated ones of the `look` objects behind `after`, at most `most` of them.
    pub(crate) fn outdated(&self, after: Option<&ObjectKey>, look: usize, most: usize) -> Outdated {
        let newest = self.dictionary.load().generation();
        let snapshot = self.snapshot();
        let mut outdated = Outdated::default();
        for object in snapshot.range(None, after).take(look) {
            outdated.reached = Some(object.key.clone());
            if object.body.generation() != newest {
                outdated.objects.push(Arc::clone(object));
                if outdated.objects.len() == most {
                    break;
                }
            }
        }
        outdated
    }

    /// Puts objects that were compressed anew in place of what they were, where that is still
    /// there. Readers see the same texts before and after.
    pub(crate) fn replace(&self, objects: &[Recompressed]) {
        let mut state = self.write();
        for Recompressed { before, after } in objects {
            state.contents.exchange(before, after);
        }
    }
}
