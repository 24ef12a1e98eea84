//! The depth that bodies and objects may have.

/// Deepest nesting of lists and objects in a body, and in the outcome of a patch. The parser of
/// JSON reads 127 levels, of which `managedFields` take some more than the fields that they
/// describe: so a stored object can always be read again.
pub const MAX_DEPTH: usize = 120;

/// Most levels within `managedFields`, as many as the parser of JSON reads.
pub(super) const MAX_LEVELS: usize = 127;

/// A body that is nested more deeply than is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("exceeded max depth of {MAX_DEPTH}")]
pub(super) struct TooDeep;
