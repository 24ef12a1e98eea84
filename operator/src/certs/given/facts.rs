//! A certificate of somebody else, and what can be wrong with it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::certs::pair::Pair;
use crate::certs::time::{between, plus};

/// Keys and values of a Secret.
pub type Values = BTreeMap<String, Vec<u8>>;

/// A certificate that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The certificate with its intermediates, and the key.
    pub pair: Pair,
    /// The authorities that sign it, one PEM each, none twice.
    pub cas: Vec<String>,
    /// The time from which on it is valid.
    pub not_before: Timestamp,
    /// The time of its expiry.
    pub not_after: Timestamp,
    /// The time from which on another one is asked for.
    pub due: Timestamp,
    /// The words of the issuer about the next certificate.
    pub note: Option<String>,
}

impl Given {
    /// Returns the middle between the time at which another one is asked for and the end.
    #[must_use]
    pub fn between_due_and_end(&self) -> Timestamp {
        plus(self.due, self.renewal() / 2)
    }

    /// Returns the time before its end in which another one is asked for.
    pub(in crate::certs) fn renewal(&self) -> Duration {
        between(self.due, self.not_after)
    }

    /// Returns the time for which it is valid.
    pub(in crate::certs) fn lifetime(&self) -> Duration {
        between(self.not_before, self.not_after)
    }
}

/// The reason why a certificate cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Reason of the condition.
    pub reason: &'static str,
    /// The field, the Secret, the key, and the remedy.
    pub message: String,
    /// True where it only has to be waited for.
    pub waiting: bool,
}

impl Problem {
    /// Returns a problem that only the user can solve.
    #[must_use]
    pub fn new(reason: &'static str, message: String) -> Self {
        Self {
            reason,
            message,
            waiting: false,
        }
    }

    /// Returns a problem that solves itself.
    #[must_use]
    pub fn waiting(reason: &'static str, message: String) -> Self {
        Self {
            waiting: true,
            ..Self::new(reason, message)
        }
    }
}

/// One move of a certificate that the operator did not issue; the text stands in the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// The authorities of the certificate joined those that are trusted.
    Trust,
    /// The server was given it.
    Use,
    /// The authorities of the one before are no longer trusted.
    Retire,
}
