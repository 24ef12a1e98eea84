//! Selectors of list, watch and deletecollection: the objects that a request means.

mod field;
mod label;
mod lexer;
mod parser;
#[cfg(test)]
mod tests;

pub use field::FieldSelector;
pub use label::{LabelSelector, Labels, Operator, Requirement};

/// The reason why a selector was refused: a 400 with this message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub(super) String);
