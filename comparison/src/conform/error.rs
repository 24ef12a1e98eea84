//! The reasons why both sides could not be compared.

use std::io;
use std::path::PathBuf;

use crate::serving::ServingError;
use testreports::InputError;

/// The reason why both sides could not be compared. A difference between them is no error.
#[derive(Debug, thiserror::Error)]
pub enum ConformError {
    /// A file of cases or deviations cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file of cases or deviations does not have the right form.
    #[error("{}: {why}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The fault, and its place.
        why: String,
    },
    /// A case that cannot be run.
    #[error("case {case}: {why}")]
    Case {
        /// The name of the case.
        case: String,
        /// The fault.
        why: String,
    },
    /// No case has the name that was asked for.
    #[error("no case is called '{0}'; comparison/cases/*.yaml has their names")]
    Unknown(String),
    /// CRDs of others are not available.
    #[error("{} gives no CRDs: {why}", script.display())]
    Foreign {
        /// The script that fetches them.
        script: PathBuf,
        /// The output of the script.
        why: String,
    },
    /// CRDs are not available.
    #[error(transparent)]
    Input(#[from] InputError),
    /// An error of a control plane, a server, or a connection.
    #[error(transparent)]
    Serving(#[from] ServingError),
}
