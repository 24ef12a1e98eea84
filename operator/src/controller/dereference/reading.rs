//! Which reads a reconciliation needs.

use std::fmt::Display;

use tracing::warn;

/// The reads that have to succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// All of them.
    Whole,
    /// Those without which nothing can be kept for clients.
    Least,
}

impl Reading {
    /// Returns what was read on the side; nothing where that failed and is not needed.
    ///
    /// # Errors
    /// The error of the read, where it is needed.
    pub fn side<T, E: Display>(self, read: Result<T, E>) -> Result<Option<T>, E> {
        match (self, read) {
            (_, Ok(read)) => Ok(Some(read)),
            (Self::Whole, Err(error)) => Err(error),
            (Self::Least, Err(error)) => {
                warn!(%error, "keeping what clients depend on without this");
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_least_does_without() {
        for reading in [Reading::Whole, Reading::Least] {
            assert_eq!(reading.side::<_, &str>(Ok(1)), Ok(Some(1)));
            let failed = reading.side::<(), _>(Err("no"));
            assert_eq!(failed.is_err(), reading == Reading::Whole);
        }
    }
}
