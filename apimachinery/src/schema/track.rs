//! The position of the reader of a body, and its findings so far.

use std::fmt::Write as _;

use fieldmanager::go::quote;

use super::depth::{MAX_DEPTH, MAX_LEVELS, TooDeep};
use super::told::Told;

/// Most duplicates that are named; more are counted as one error too many to tell.
pub(super) const MAX_DUPLICATES: usize = 100;

/// A step from a list or an object to what is in it.
pub(super) enum Segment {
    /// A member of an object.
    Key(String),
    /// An item of a list.
    Index(usize),
}

/// The position of the reader, and its findings.
pub(super) struct Track {
    path: Vec<Segment>,
    duplicates: Told,
}

impl Default for Track {
    fn default() -> Self {
        Self::below(Vec::new())
    }
}

impl Track {
    /// Returns a track that begins at this place.
    pub fn below(path: Vec<Segment>) -> Self {
        Self {
            path,
            duplicates: Told::at_most(MAX_DUPLICATES),
        }
    }

    /// Checks that a list or an object may be here.
    ///
    /// # Errors
    /// If it is too deep.
    pub fn check_depth(&self) -> Result<(), TooDeep> {
        let most = if self.is_of_owners() {
            MAX_LEVELS
        } else {
            MAX_DEPTH
        };
        if self.path.len() < most {
            Ok(())
        } else {
            Err(TooDeep)
        }
    }

    /// Returns whether this is within `metadata.managedFields`, where a path takes more levels than
    /// the field that it leads to.
    fn is_of_owners(&self) -> bool {
        let key = |index: usize| match self.path.get(index) {
            Some(Segment::Key(key)) => key.as_str(),
            _ => "",
        };
        key(0) == "metadata" && key(1) == "managedFields"
    }

    /// Goes to an item or a member.
    pub fn enter(&mut self, segment: Segment) {
        self.path.push(segment);
    }

    /// Goes back to the list or the object around.
    pub fn leave(&mut self) {
        self.path.pop();
    }

    /// Goes back from a member to the object around; returns its key, which is not made anew.
    pub fn leave_member(&mut self) -> Option<String> {
        match self.path.pop() {
            Some(Segment::Key(key)) => Some(key),
            Some(Segment::Index(_)) | None => None,
        }
    }

    /// Notes that the object here has a key for the second time.
    pub fn record_duplicate(&mut self, key: &str) {
        if self.duplicates.is_full() {
            return;
        }
        let mut path = String::new();
        for segment in &self.path {
            match segment {
                Segment::Key(key) if path.is_empty() => path.push_str(key),
                Segment::Key(key) => {
                    path.push('.');
                    path.push_str(key);
                }
                Segment::Index(index) => {
                    let _ = write!(path, "[{index}]");
                }
            }
        }
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
        let error = format!("duplicate field {}", quote(&path));
        self.duplicates.add_once(error);
    }

    /// Returns the duplicates that were noted, in order.
    pub fn into_duplicates(self) -> Vec<String> {
        self.duplicates.into_texts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_member_comes_back_as_it_went_in() {
        let mut track = Track::default();
        let key = "results".to_owned();
        let place = key.as_ptr();
        track.enter(Segment::Key(key));
        track.enter(Segment::Index(0));
        track.leave();
        let key = track.leave_member().unwrap();
        assert_eq!((key.as_str(), key.as_ptr()), ("results", place));
        assert_eq!(track.leave_member(), None);
    }
}
