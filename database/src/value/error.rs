//! The errors of parameters.

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
        /// The error of the system.
        source: io::Error,
    },
    /// A parameter is missing without which no connection is possible.
    #[error("{} missing: give a `uri`, or `host`, `dbname` and `username`", listed(.keys))]
    Missing {
        /// Keys that are absent or empty.
        keys: Vec<&'static str>,
    },
    /// A value cannot be used.
    #[error("`{key}` {why}")]
    Invalid {
        /// The key.
        key: String,
        /// The error of the value, and the right form.
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
