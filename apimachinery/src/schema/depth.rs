//! How deep bodies and objects may be.

/// Deepest nesting of lists and objects in a body, and of what a patch makes of an object. The
/// parser of JSON reads 127 levels, of which `managedFields` take some more than the fields that
/// they tell of: so what is stored can always be read again.
pub const MAX_DEPTH: usize = 120;
