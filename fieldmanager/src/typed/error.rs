//! The faults of a value.

use std::fmt;

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationError {
    /// The path of the fault; empty for the root.
    pub path: String,
    /// The fault.
    pub message: String,
}

/// All findings; there is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationErrors(pub Vec<ValidationError>);

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

impl fmt::Display for ValidationErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return only.fmt(f);
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

impl std::error::Error for ValidationErrors {}

/// Findings gathered by a walk.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<ValidationError>);

impl Findings {
    /// Adds a finding about the value at hand.
    pub fn add(&mut self, message: impl Into<String>) {
        self.0.push(ValidationError {
            path: String::new(),
            message: message.into(),
        });
    }

    /// Takes over the findings of a child; `element` is called only where there are any.
    pub fn add_below<E: fmt::Display>(&mut self, element: impl FnOnce() -> E, below: Self) {
        if below.0.is_empty() {
            return;
        }
        let prefix = element().to_string();
        self.0
            .extend(below.0.into_iter().map(|error| ValidationError {
                path: format!("{prefix}{}", error.path),
                message: error.message,
            }));
    }

    pub fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn into_result<T>(self, value: T) -> Result<T, ValidationErrors> {
        if self.0.is_empty() {
            Ok(value)
        } else {
            Err(ValidationErrors(self.0))
        }
    }
}

/// The finding where a type allows nothing.
pub(super) const INVALID_ATOM: &str = "schema error: invalid atom: inlined";
