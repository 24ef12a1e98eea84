//! The actions of a run.

use std::fmt;

use super::child::{Child, Harm};
use super::edit::ValidEdit;
use super::expect::Expect;
use super::wrong::InvalidEdit;

/// A component whose pods are restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Component {
    /// The operator.
    Operator,
    /// The servers.
    Server,
    /// The database.
    Database,
}

impl Component {
    /// Every component.
    pub const ALL: [Self; 3] = [Self::Operator, Self::Server, Self::Database];

    /// Returns the value of the pods' label `app.kubernetes.io/component`, which is the name of
    /// their container, too.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Server => "server",
            Self::Database => "postgres",
        }
    }
}

/// The way in which a pod is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Manner {
    /// One pod is deleted.
    Deleted,
    /// The processes of one pod are killed (`SIGKILL`).
    Killed,
    /// All pods are deleted at once.
    AllDeleted,
}

impl Manner {
    /// Every manner.
    pub const ALL: [Self; 3] = [Self::Deleted, Self::Killed, Self::AllDeleted];
}

/// One of the children of a kind: its place in the order of names, counted round.
pub type Pick = (Child, usize);

/// Something that wrong hands do, or right ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The specification is changed.
    Valid(ValidEdit),
    /// The specification is changed in a way that nobody can carry out.
    Invalid(InvalidEdit),
    /// A child is changed.
    Harm(Pick, Harm),
    /// Children are deleted, one right after the other.
    Delete(Vec<Pick>),
    /// Pods are restarted.
    Restart(Component, Manner),
    /// A workload has no pods any more, while the operator may repair nothing.
    ScaledAway(Child),
    /// The target namespace is no target any more.
    NamespaceClosed,
    /// The target namespace is to be deleted.
    NamespaceDeleted,
    /// The `ReportsServer` is deleted, and made again when it is gone.
    MadeAgain,
}

impl Action {
    /// Returns what has to be so after it.
    #[must_use]
    pub fn expect(&self) -> Expect {
        match self {
            Self::Valid(edit) => edit.expect(),
            Self::Invalid(edit) => edit.expect(),
            Self::ScaledAway(Child::Deployment) => Expect::Away(&["scaled to 0"]),
            Self::ScaledAway(_) => Expect::Away(&[]),
            Self::NamespaceClosed => Expect::Refused(&["kubectl label namespace"]),
            Self::NamespaceDeleted => Expect::Refused(&["kubectl delete reportsserver"]),
            Self::Harm(..) | Self::Delete(_) | Self::Restart(..) | Self::MadeAgain => {
                Expect::Served
            }
        }
    }

    /// Returns whether it is taken back once it was judged, however that went. Others are taken back
    /// only where a condition asks a person for it.
    #[must_use]
    pub fn is_taken_back(&self) -> bool {
        matches!(
            self,
            Self::Valid(_) | Self::Invalid(_) | Self::ScaledAway(_) | Self::NamespaceClosed
        )
    }

    /// Returns whether the operator has to mend it without a person.
    #[must_use]
    pub fn is_mended(&self) -> bool {
        matches!(self, Self::Harm(..) | Self::Delete(_) | Self::Restart(..))
    }

    /// Returns whether a group may be without its APIService for a moment, in which its CRDs answer.
    #[must_use]
    pub fn disputes(&self) -> bool {
        match self {
            Self::Harm((child, _), _) => *child == Child::ApiService,
            Self::Delete(picks) => picks.iter().any(|(child, _)| *child == Child::ApiService),
            Self::MadeAgain => true,
            _ => false,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pick = |(child, number): &Pick| format!("{} {number}", child.kind());
        match self {
            Self::Valid(edit) => write!(f, "edit {edit:?}"),
            Self::Invalid(edit) => write!(f, "wrong edit {edit:?}"),
            Self::Harm(of, harm) => write!(f, "{} {harm:?}", pick(of)),
            Self::Delete(picks) => {
                let picks: Vec<String> = picks.iter().map(pick).collect();
                write!(f, "delete {}", picks.join(", "))
            }
            Self::Restart(component, manner) => write!(f, "{} {manner:?}", component.name()),
            Self::ScaledAway(child) => write!(f, "suspended, {} scaled to 0", child.kind()),
            Self::NamespaceClosed => f.write_str("target namespace without its label"),
            Self::NamespaceDeleted => f.write_str("delete the target namespace"),
            Self::MadeAgain => f.write_str("delete the ReportsServer, and make it again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_repairs_is_taken_back() {
        assert!(Action::ScaledAway(Child::Deployment).is_taken_back());
        assert!(Action::Invalid(InvalidEdit::NoGroups).is_taken_back());
        assert!(!Action::Delete(vec![(Child::Secret, 0)]).is_taken_back());
        assert!(!Action::Harm((Child::Role, 0), Harm::Emptied).is_taken_back());
    }

    #[test]
    fn both_sides_take_writes_only_without_an_apiservice() {
        let several = vec![(Child::Secret, 1), (Child::ApiService, 0)];
        assert!(Action::Delete(several).disputes());
        assert!(!Action::Delete(vec![(Child::Secret, 1)]).disputes());
        assert!(!Action::Valid(ValidEdit::GivenBack).disputes());
    }
}
