//! Behaviours that tests break on purpose, to see that the comparison with the CRDs finds it.
//!
//! They exist only with the feature `mutations`, which images do not have: without it nothing can
//! be broken.

/// One behaviour that can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// An update that changes nothing is written.
    NoOpWrites,
    /// An update with an old resourceVersion is made.
    ConflictUnnoticed,
    /// Fields that the schema does not know are stored.
    UnknownKept,
    /// A deletion removes objects with finalizers.
    FinalizerIgnored,
    /// A watch with a selector does not tell that an object left the selection.
    LeaveUntold,
    /// A watch list has no bookmark at the end of its objects.
    BookmarkMissing,
    /// Answers carry no warnings.
    WarningsDropped,
    /// Nobody owns fields.
    OwnersLost,
    /// Later pages of a list are of a newer state than the first.
    PagesMixed,
    /// The generation stays as it is.
    GenerationStays,
}

impl Mutation {
    /// All mutations.
    pub const ALL: [Self; 10] = [
        Self::NoOpWrites,
        Self::ConflictUnnoticed,
        Self::UnknownKept,
        Self::FinalizerIgnored,
        Self::LeaveUntold,
        Self::BookmarkMissing,
        Self::WarningsDropped,
        Self::OwnersLost,
        Self::PagesMixed,
        Self::GenerationStays,
    ];

    /// Returns the name in [`VARIABLE`].
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoOpWrites => "no-op-writes",
            Self::ConflictUnnoticed => "conflict-unnoticed",
            Self::UnknownKept => "unknown-kept",
            Self::FinalizerIgnored => "finalizer-ignored",
            Self::LeaveUntold => "leave-untold",
            Self::BookmarkMissing => "bookmark-missing",
            Self::WarningsDropped => "warnings-dropped",
            Self::OwnersLost => "owners-lost",
            Self::PagesMixed => "pages-mixed",
            Self::GenerationStays => "generation-stays",
        }
    }
}

/// The environment variable that names the behaviour to break.
pub const VARIABLE: &str = "REPORTS_SERVER_MUTATION";

/// Returns whether this behaviour is broken on purpose.
#[cfg(feature = "mutations")]
#[must_use]
pub fn broken(mutation: Mutation) -> bool {
    use std::sync::LazyLock;

    static CHOSEN: LazyLock<Option<String>> = LazyLock::new(|| std::env::var(VARIABLE).ok());
    CHOSEN.as_deref() == Some(mutation.name())
}

/// Returns whether this behaviour is broken on purpose: not in this build.
#[cfg(not(feature = "mutations"))]
#[must_use]
pub const fn broken(_: Mutation) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_differ() {
        let names: BTreeSet<_> = Mutation::ALL.map(Mutation::name).into();
        assert_eq!(names.len(), Mutation::ALL.len());
    }

    #[test]
    fn nothing_is_broken_unasked() {
        assert!(!Mutation::ALL.into_iter().any(broken));
    }
}
