//! The events about a CRD that lacks something: each `ReportsServer` gets one for each change.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crds::v1alpha1::reasons;
use kube::runtime::events::{Event, EventType};

use super::installed::Installed;
use crate::events;

/// Action of the event.
const ACTION: &str = "CompareCRD";

/// The words that were told last, by name of the `ReportsServer`.
#[derive(Debug, Default)]
pub struct Told(Mutex<BTreeMap<String, String>>);

impl Told {
    /// Returns the event about a `ReportsServer` where it has not been told the same already.
    #[must_use]
    pub fn news(&self, name: &str, installed: &Installed) -> Option<Event> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(words) = installed.complaint() else {
            told.remove(name);
            return None;
        };
        if told.get(name) == Some(&words) {
            return None;
        }
        let event = Event {
            action: ACTION.to_owned(),
            ..events::event(EventType::Warning, reasons::CRD_OUTDATED, &words)
        };
        told.insert(name.to_owned(), words);
        Some(event)
    }

    /// Forgets a `ReportsServer` that is gone.
    pub fn forget(&self, name: &str) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.remove(name);
    }
}
