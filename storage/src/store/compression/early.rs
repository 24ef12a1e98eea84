//! A dictionary that is trained while the objects of a resource are still being read at the start,
//! so that not all of them are in memory in their larger form first.

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::training::{select, train};
use crate::cache::Bodies;
use crate::model::{BodyError, Dictionary, StoredObject};

/// Objects that are read before: fewer take little memory, and the start is not to be slowed down
/// for them.
const AFTER: usize = 20_000;
/// Most objects that are trained with.
const SAMPLE_OBJECTS: usize = 1000;

/// The dictionary that objects are read with.
#[derive(Debug)]
pub(in crate::store) struct Early {
    dictionary: Arc<Dictionary>,
    training: Training,
    /// Objects that are read before it begins.
    begins_after: usize,
}

#[derive(Debug)]
enum Training {
    NotBegun,
    Running(JoinHandle<Result<Option<Dictionary>, BodyError>>),
    Ended,
}

impl Early {
    /// Begins with the dictionary that the resource has, which is replaced only if it was not
    /// trained.
    pub fn new(dictionary: Arc<Dictionary>) -> Self {
        let training = match dictionary.generation() {
            0 => Training::NotBegun,
            _ => Training::Ended,
        };
        Self {
            dictionary,
            training,
            begins_after: AFTER,
        }
    }

    /// Returns the dictionary to read the next objects with.
    pub fn dictionary(&self) -> &Arc<Dictionary> {
        &self.dictionary
    }

    /// Returns the dictionary in the end.
    pub fn into_dictionary(self) -> Arc<Dictionary> {
        self.dictionary
    }

    /// Notes the objects that have been read so far. Does not wait for a training.
    pub async fn read(&mut self, objects: &[StoredObject]) {
        match &mut self.training {
            Training::NotBegun if objects.len() >= self.begins_after => {
                let every = objects.len().div_ceil(SAMPLE_OBJECTS);
                let some = objects.iter().step_by(every).cloned().map(Arc::new);
                let some: Vec<_> = some.collect();
                let work = move || train_with(&some);
                self.training = Training::Running(tokio::task::spawn_blocking(work));
            }
            Training::Running(running) if running.is_finished() => {
                if let Ok(Ok(Some(dictionary))) = running.await {
                    self.dictionary = Arc::new(dictionary);
                }
                self.training = Training::Ended;
            }
            Training::NotBegun | Training::Running(_) | Training::Ended => {}
        }
    }
}

/// Returns the first dictionary of a resource.
fn train_with(objects: &[Arc<StoredObject>]) -> Result<Option<Dictionary>, BodyError> {
    let lengths = objects.iter().map(|object| object.body.json_len() as u64);
    let all = Bodies {
        count: objects.len() as u64,
        json_bytes: lengths.sum(),
        ..Bodies::default()
    };
    train(&select(objects.iter(), all), 1)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::{Encoded, ObjectKey};

    fn object(number: u64, dictionary: &Dictionary) -> StoredObject {
        let name = format!("n{number:05}");
        let check = |check: u64| {
            let seen = number * 31 + check;
            json!({"message": format!("the check of {check} has seen {seen} this time"),
                "policy": "policy-of-the-house", "severity": "medium"})
        };
        let results: Value = (0..20).map(check).collect();
        let object = json!({"metadata": {"name": name}, "results": results});
        let encoded = Encoded::from_value(&object, dictionary).unwrap();
        encoded.into_object(ObjectKey::new("", &name), number, false)
    }

    fn objects(dictionary: &Dictionary) -> Vec<StoredObject> {
        (0..500).map(|number| object(number, dictionary)).collect()
    }

    async fn ended(early: &mut Early, objects: &[StoredObject]) {
        while !matches!(early.training, Training::Ended) {
            early.read(objects).await;
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn later_objects_are_read_with_a_dictionary_of_the_first() {
        let mut early = Early::new(Arc::clone(Dictionary::built_in()));
        early.begins_after = 400;
        let objects = objects(Dictionary::built_in());
        early.read(&objects[..399]).await;
        assert!(matches!(early.training, Training::NotBegun));
        ended(&mut early, &objects).await;
        let dictionary = early.into_dictionary();
        assert_eq!(dictionary.generation(), 1);
        let later = object(1000, &dictionary);
        let want = object(1000, Dictionary::built_in());
        assert!(later.body.compressed_len() < want.body.compressed_len());
        assert_eq!(later.json().unwrap(), want.json().unwrap());
    }

    #[tokio::test]
    async fn what_cannot_be_trained_changes_nothing() {
        let mut early = Early::new(Arc::clone(Dictionary::built_in()));
        early.begins_after = 1;
        let few = [object(1, Dictionary::built_in())];
        ended(&mut early, &few).await;
        assert_eq!(early.into_dictionary().generation(), 0);
    }

    #[tokio::test]
    async fn a_trained_dictionary_is_kept() {
        let objects = objects(Dictionary::built_in());
        let objects: Vec<_> = objects.into_iter().map(Arc::new).collect();
        let trained = train(&objects, 3).unwrap().unwrap();
        let early = Early::new(Arc::new(trained));
        assert!(matches!(early.training, Training::Ended));
        assert_eq!(early.dictionary().generation(), 3);
    }
}
