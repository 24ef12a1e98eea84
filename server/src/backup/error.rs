//! What can go wrong with a backup in a bucket.

use std::io;
use std::path::PathBuf;

/// Why a backup was not carried.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value of the command line or the environment.
    #[error("{what}: {why}")]
    Invalid {
        /// Option or variable.
        what: &'static str,
        /// What is wrong, and the remedy.
        why: String,
    },
    /// A file.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The bucket cannot be reached.
    #[error("cannot {doing} at {host}: {why}")]
    Unreachable {
        /// What was about to be done.
        doing: &'static str,
        /// Who was asked.
        host: String,
        /// The cause.
        why: String,
    },
    /// The bucket refuses.
    #[error("cannot {doing}: the bucket answers {status} {why}")]
    Refused {
        /// What was about to be done.
        doing: &'static str,
        /// Status of the answer.
        status: u16,
        /// Code and message of S3.
        why: String,
    },
    /// An answer that makes no sense.
    #[error("cannot {doing}: {why}")]
    Answer {
        /// What was about to be done.
        doing: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// No backup of that name.
    #[error("there is no backup {name}; there are: {}", present.join(" "))]
    Missing {
        /// The name.
        name: String,
        /// Those that there are.
        present: Vec<String>,
    },
}

impl Error {
    /// Returns whether another try may end better.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => *status >= 500 || matches!(*status, 408 | 429),
            _ => false,
        }
    }
}

/// Returns the text of the first element of this name. Services differ in names of roots and
/// namespaces, and what is asked for here never has to be unescaped.
pub(super) fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once("</").map(|(value, _)| value)
}

/// Code and message of an error document of S3, or its beginning where it is none.
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
