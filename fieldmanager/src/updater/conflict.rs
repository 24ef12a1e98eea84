//! Conflicts, in the words of the kube-apiserver.

use std::collections::BTreeMap;
use std::fmt;

use super::Manager;
use crate::path::Path;
use crate::set::FieldSet;

/// A field that is owned by somebody else, with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The owner of the field.
    pub manager: Manager,
    /// The path of the field.
    pub path: Path,
}

/// All conflicts of an apply; there is at least one. As text it is the message of the `Status` of
/// the answer, whose code is 409 and whose reason is `Conflict`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

/// One of the causes in the details of the `Status`; its reason is [`Cause::REASON`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The message for people.
    pub message: String,
    /// The path of the field.
    pub field: String,
}

impl Cause {
    /// The reason of every cause.
    pub const REASON: &'static str = "FieldManagerConflict";
}

impl Conflicts {
    /// Returns the causes, one a conflict.
    #[must_use]
    pub fn causes(&self) -> Vec<Cause> {
        self.0
            .iter()
            .map(|conflict| Cause {
                message: format!("conflict with {}", conflict.manager),
                field: conflict.path.to_string(),
            })
            .collect()
    }

    pub(crate) fn to_field_set(&self) -> FieldSet {
        self.0
            .iter()
            .map(|conflict| conflict.path.clone())
            .collect()
    }

    /// Returns the conflicts about other fields than these.
    pub(crate) fn without(&self, fields: &FieldSet) -> Self {
        let others = |conflict: &&Conflict| !fields.contains(&conflict.path.0);
        Self(self.0.iter().filter(others).cloned().collect())
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            let Conflict { manager, path } = only;
            return write!(
                f,
                "Apply failed with 1 conflict: conflict with {manager}: {path}"
            );
        }
        let mut by_manager: BTreeMap<&Manager, Vec<&Path>> = BTreeMap::new();
        for conflict in &self.0 {
            let paths = by_manager.entry(&conflict.manager).or_default();
            paths.push(&conflict.path);
        }
        let lines: Vec<String> = by_manager
            .iter()
            .flat_map(|(manager, paths)| {
                let head = format!("conflicts with {manager}:");
                std::iter::once(head).chain(paths.iter().map(|path| format!("- {path}")))
            })
            .collect();
        let count = self.0.len();
        write!(
            f,
            "Apply failed with {count} conflicts: {}",
            lines.join("\n")
        )
    }
}

impl std::error::Error for Conflicts {}
