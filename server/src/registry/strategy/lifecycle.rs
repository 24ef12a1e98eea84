//! The rules by which a namespace takes a write: those of the admission plugin `NamespaceLifecycle`
//! in the kube-apiserver, which does not run it for aggregated APIs.

use crate::cluster::NamespacePhase;

/// The kind of write that the namespace is to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A change of an object. A deletion is always allowed and never asks.
    Update,
}

/// The reason why the namespace does not take the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// 404 about the namespace.
    #[error("the namespace does not exist")]
    Missing,
    /// 403 with the cause `NamespaceTerminating`.
    #[error("the namespace is being deleted")]
    Terminating,
}

/// Decides whether the namespace takes the write. Updates go on while a namespace is being deleted:
/// finalizers have to be removed.
///
/// # Errors
/// [`Refusal`] with the reason.
pub fn admit(operation: Operation, namespace: NamespacePhase) -> Result<(), Refusal> {
    match (operation, namespace) {
        (_, NamespacePhase::Missing) => Err(Refusal::Missing),
        (Operation::Create, NamespacePhase::Terminating) => Err(Refusal::Terminating),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Operation::Create, NamespacePhase::Active, Ok(()))]
    #[case(
        Operation::Create,
        NamespacePhase::Terminating,
        Err(Refusal::Terminating)
    )]
    #[case(Operation::Create, NamespacePhase::Missing, Err(Refusal::Missing))]
    #[case(Operation::Update, NamespacePhase::Active, Ok(()))]
    #[case(Operation::Update, NamespacePhase::Terminating, Ok(()))]
    #[case(Operation::Update, NamespacePhase::Missing, Err(Refusal::Missing))]
    fn decisions(
        #[case] operation: Operation,
        #[case] namespace: NamespacePhase,
        #[case] expected: Result<(), Refusal>,
    ) {
        assert_eq!(admit(operation, namespace), expected);
    }
}
