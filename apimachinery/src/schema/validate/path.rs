//! The place of a value in an object.

use std::fmt;

/// A path as a chain of borrowed parts: nothing is allocated until an error needs its text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    part: Part<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Part<'a> {
    Root,
    Field(&'a str),
    Index(usize),
    /// A key of a map, which some errors write in brackets.
    Key(&'a str),
}

impl<'a> Path<'a> {
    pub fn root() -> Self {
        Self {
            parent: None,
            part: Part::Root,
        }
    }

    pub fn field(&'a self, name: &'a str) -> Self {
        Self {
            parent: Some(self),
            part: Part::Field(name),
        }
    }

    pub fn index(&'a self, index: usize) -> Self {
        Self {
            parent: Some(self),
            part: Part::Index(index),
        }
    }

    pub fn key(&'a self, key: &'a str) -> Self {
        Self {
            parent: Some(self),
            part: Part::Key(key),
        }
    }

    pub fn is_root(&self) -> bool {
        matches!(self.part, Part::Root)
    }

    /// Returns the field of an error: `<nil>` at the root, as Go prints a path that is nil.
    pub fn to_field(self) -> String {
        if self.is_root() {
            "<nil>".to_owned()
        } else {
            self.to_string()
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = self.parent.filter(|parent| !parent.is_root());
        if let Some(parent) = parent {
            parent.fmt(f)?;
        }
        match self.part {
            Part::Root => Ok(()),
            Part::Field(name) if parent.is_none() => f.write_str(name),
            Part::Field(name) => write!(f, ".{name}"),
            Part::Index(index) => write!(f, "[{index}]"),
            Part::Key(key) => write!(f, "[{key}]"),
        }
    }
}
