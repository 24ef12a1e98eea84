//! Selectors of list, watch and deletecollection: which objects a request means.

mod field;
mod label;
mod lexer;
mod parser;
#[cfg(test)]
mod tests;

pub use field::FieldSelector;
pub use label::{LabelSelector, Labels, Operator, Requirement};

/// Why a selector was refused: a 400 whose message this is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub(super) String);
