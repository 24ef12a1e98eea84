//! Why both sides could not be compared.

use std::io;
use std::path::PathBuf;

use crate::serving::ServingError;
use testreports::InputError;

/// Why both sides could not be compared. What differs between them is no error.
#[derive(Debug, thiserror::Error)]
pub enum ConformError {
    /// A file of cases or deviations cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of cases or deviations is not what it should be.
    #[error("{}: {why}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        why: String,
    },
    /// A case that cannot be run.
    #[error("case {case}: {why}")]
    Case {
        /// Its name.
        case: String,
        /// What is wrong.
        why: String,
    },
    /// No case has the name that was asked for.
    #[error("no case is called '{0}'; comparison/cases/*.yaml has their names")]
    Unknown(String),
    /// CRDs of others could not be had.
    #[error("{} gives no CRDs: {why}", script.display())]
    Foreign {
        /// What fetches them.
        script: PathBuf,
        /// What it said.
        why: String,
    },
    /// CRDs could not be had.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A control plane, a server, or a connection.
    #[error(transparent)]
    Serving(#[from] ServingError),
}
