//! What is wrong with parameters.

use std::io;
use std::path::PathBuf;

/// The parameters cannot be used. No message holds a password or a key.
#[derive(Debug, thiserror::Error)]
pub enum ParametersError {
    /// The directory or one of its files cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The directory or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something is not there without which nothing can be connected to.
    #[error("{} missing: give a `uri`, or `host`, `dbname` and `username`", listed(.keys))]
    Missing {
        /// Keys that are not there or empty.
        keys: Vec<&'static str>,
    },
    /// A value cannot be used.
    #[error("`{key}` {why}")]
    Invalid {
        /// The key.
        key: String,
        /// What is wrong with it, and what to write instead.
        why: String,
    },
}

fn listed(keys: &[&'static str]) -> String {
    let names: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    match names.as_slice() {
        [one] => format!("{one} is"),
        _ => format!("{} are", names.join(", ")),
    }
}

impl ParametersError {
    pub(crate) fn invalid(key: &str, why: impl Into<String>) -> Self {
        Self::Invalid {
            key: key.to_owned(),
            why: why.into(),
        }
    }
}
