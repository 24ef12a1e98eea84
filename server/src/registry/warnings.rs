//! Warnings for a client.

use std::sync::{Mutex, PoisonError};

/// Warnings for a client, whether or not its request is refused in the end.
#[derive(Debug, Default)]
pub struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    /// Adds texts; one that is there already is left out.
    pub fn add(&self, texts: impl IntoIterator<Item = String>) {
        let mut warnings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for text in texts {
            if !warnings.contains(&text) {
                warnings.push(text);
            }
        }
    }

    /// Takes and returns all of them.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
