//! The reasons why a text is no YAML that can be an object.

use granit_parser::{ErrorKind, ScanError};

use crate::schema::depth::TooDeep;

/// The reason why a text is not read, where it is Go's in the words of Go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// A text in another encoding.
    #[error("invalid UTF-8")]
    Encoding,
    /// A character that YAML does not have.
    #[error("control characters are not allowed")]
    Control,
    /// Bad syntax.
    #[error("line {line}: {problem}")]
    Syntax {
        /// The line, from one.
        line: usize,
        /// The mistake.
        problem: String,
    },
    /// Lists and objects in each other, too often.
    #[error(transparent)]
    Depth(#[from] TooDeep),
    /// Aliases that stand for too much.
    #[error("document contains excessive aliasing")]
    Aliasing,
    /// An alias within what it stands for.
    #[error("line {0}: anchor value contains itself")]
    ContainsItself(usize),
    /// A merge of something else than objects.
    #[error("map merge requires map or sequence of maps as the value")]
    Merge,
    /// A key that is null, a list, an object or a number that is too large.
    #[error("line {0}: invalid map key")]
    Key(usize),
    /// A text that is not of the type that its tag says.
    #[error("line {line}: cannot decode `{text}` as a {tag}")]
    Tag {
        /// The line, from one.
        line: usize,
        /// The text.
        text: String,
        /// The tag in its short form.
        tag: &'static str,
    },
    /// A number that JSON does not have.
    #[error("json: unsupported value: {0}")]
    Number(&'static str),
    /// Bytes that are not in base64.
    #[error("!!binary value contains invalid base64 data")]
    Binary,
}

impl From<ScanError> for YamlError {
    fn from(error: ScanError) -> Self {
        match error.kind() {
            ErrorKind::RecursionLimitExceeded => Self::Depth(TooDeep),
            _ => Self::Syntax {
                line: error.marker().line(),
                problem: error.info(),
            },
        }
    }
}
