//! The errors of a backup in a bucket.

use std::io;
use std::path::PathBuf;

use storage::store::RestoreError;

/// The reason why a backup was not made, carried or restored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value of the command line or the environment.
    #[error("{what}: {why}")]
    Invalid {
        /// Option or variable.
        what: &'static str,
        /// The fault, and the remedy.
        why: String,
    },
    /// A file.
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The bucket cannot be reached.
    #[error("cannot {doing} at {host}: {why}")]
    Unreachable {
        /// The action that failed.
        doing: &'static str,
        /// The host that was asked.
        host: String,
        /// The cause.
        why: String,
    },
    /// The bucket refuses.
    #[error("cannot {doing}: the bucket answers {status} {why}")]
    Refused {
        /// The action that failed.
        doing: &'static str,
        /// Status of the answer.
        status: u16,
        /// Code and message of S3.
        why: String,
    },
    /// An answer that makes no sense.
    #[error("cannot {doing}: {why}")]
    Answer {
        /// The action that failed.
        doing: &'static str,
        /// The fault of the answer.
        why: String,
    },
    /// The server does not send a copy of its database.
    #[error("cannot fetch a copy of the database: the server answers {status} {why}")]
    NoCopy {
        /// Status of the answer.
        status: u16,
        /// The message of the server.
        why: String,
    },
    /// The database does not begin with the backup.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// No backup of that name.
    #[error("backup {name} does not exist; existing backups: {}", present.join(" "))]
    Missing {
        /// The name.
        name: String,
        /// The backups that exist.
        present: Vec<String>,
    },
}

impl Error {
    /// Returns whether another try may succeed.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } | Self::NoCopy { status, .. } => {
                *status >= 500 || matches!(*status, 408 | 429)
            }
            _ => false,
        }
    }
}

/// Returns the error with its causes: the first error never names a failure of TLS.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Returns the text of the first element of this name. Services differ in names of roots and
/// namespaces, and the elements that are read here never have to be unescaped.
pub(super) fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once("</").map(|(value, _)| value)
}

/// Returns code and message of an error document of S3, or its beginning where it is none.
pub(super) fn of_document(text: &str) -> String {
    match (element(text, "Code"), element(text, "Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        _ => text.chars().take(200).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_document_says_code_and_message() {
        let text = "<?xml version=\"1.0\"?><Error><Code>NoSuchBucket</Code>\
            <Message>The bucket does not exist</Message><BucketName>b</BucketName></Error>";
        assert_eq!(of_document(text), "NoSuchBucket: The bucket does not exist");
        assert_eq!(of_document("gateway timeout"), "gateway timeout");
    }
}
