//! The managers of fields.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

use crate::go::{self, Flavour, json};

/// The way in which a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Any other write.
    Update,
}

impl Operation {
    /// Returns the name in `managedFields`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The identity of a manager. One name has an entry for apply and one for other writes in each
/// version.
#[derive(Clone, Debug)]
pub struct Manager {
    name: String,
    /// The `apiVersion`; empty for apply.
    api_version: String,
    subresource: String,
    /// The text by which the kube-apiserver orders managers.
    identifier: String,
}

impl Manager {
    /// Returns a manager that applies.
    pub fn apply(name: impl Into<String>, subresource: impl Into<String>) -> Self {
        Self::new(name.into(), String::new(), subresource.into())
    }

    /// Returns a manager that writes otherwise; `api_version` must not be empty.
    pub fn update(
        name: impl Into<String>,
        api_version: impl Into<String>,
        subresource: impl Into<String>,
    ) -> Self {
        Self::new(name.into(), api_version.into(), subresource.into())
    }

    fn new(name: String, api_version: String, subresource: String) -> Self {
        let mut manager = Self {
            name,
            api_version,
            subresource,
            identifier: String::new(),
        };
        manager.identifier = manager.identify();
        manager
    }

    /// Returns the name of the field manager.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the subresource that was written, or nothing.
    #[must_use]
    pub fn subresource(&self) -> &str {
        &self.subresource
    }

    /// Returns the way in which the manager writes.
    #[must_use]
    pub fn operation(&self) -> Operation {
        if self.api_version.is_empty() {
            Operation::Apply
        } else {
            Operation::Update
        }
    }

    fn identify(&self) -> String {
        let fields = [
            ("manager", self.name.as_str()),
            ("operation", self.operation().as_str()),
            ("apiVersion", &self.api_version),
            ("subresource", &self.subresource),
        ];
        let fields: Vec<String> = fields
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, text)| {
                let text = json(&Value::from(text), Flavour::Standard);
                format!("\"{name}\":{text}")
            })
            .collect();
        format!("{{{}}}", fields.join(","))
    }
}

impl PartialEq for Manager {
    fn eq(&self, other: &Self) -> bool {
        self.identifier == other.identifier
    }
}

impl Eq for Manager {}

impl PartialOrd for Manager {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Manager {
    fn cmp(&self, other: &Self) -> Ordering {
        self.identifier.cmp(&other.identifier)
    }
}

/// Writes the manager as in the messages of conflicts.
impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&go::quote(&self.name))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", go::quote(&self.subresource))?;
        }
        if self.operation() == Operation::Update {
            write!(f, " using {}", self.api_version)?;
        }
        Ok(())
    }
}
