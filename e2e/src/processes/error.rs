//! The reasons why the processes could not do what was asked of them.

use std::path::PathBuf;

use super::faketime::{FAKETIME, LIBRARIES};
use crate::takeover::TakeoverError;
use testreports::InputError;

/// The reason why the processes could not do what was asked of them.
#[derive(Debug, thiserror::Error)]
pub enum ProcessesError {
    /// The cluster did not do as asked.
    #[error(transparent)]
    Cluster(#[from] testcluster::Error),
    /// The reports could not be loaded.
    #[error(transparent)]
    Load(#[from] TakeoverError),
    /// No test input.
    #[error(transparent)]
    Input(#[from] InputError),
    /// Certificates could not be made.
    #[error("certificates: {0}")]
    Certificates(#[from] rcgen::Error),
    /// A file.
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The library that sets clocks is missing.
    #[error("no {LIBRARIES}/*/{FAKETIME}; run `hack/deps postgres`")]
    NoFaketime,
    /// A program of this workspace is not where it should be.
    #[error("the program `{0}` is not beside this one; build it with `cargo build -p e2e --bins`")]
    Program(&'static str),
    /// A migration did not end, or did not print the expected line.
    #[error("{name} {how}: {log}")]
    Migration {
        /// Name of the process.
        name: String,
        /// The state of the process.
        how: String,
        /// The log of the process.
        log: String,
    },
}
