//! Paths to fields: the fields of one manager are a set of these.

mod element;
mod encoding;

use std::fmt;

pub use element::PathElement;
pub use encoding::PathElementError;

/// A path from the root of an object. The empty path, the object as a whole, is owned by nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<PathElement>);

impl Path {
    /// Returns a path of names of fields.
    #[must_use]
    pub fn of_fields(names: &[&str]) -> Self {
        Self(names.iter().map(|name| PathElement::field(*name)).collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

#[cfg(test)]
mod tests;
