//! The depth that bodies and objects may have.

/// Deepest nesting of lists and objects in a body, and in the outcome of a patch. The parser of
/// JSON reads 127 levels, of which `managedFields` take some more than the fields that they
/// describe: so a stored object can always be read again.
pub const MAX_DEPTH: usize = 120;
