//! The releases of Kubernetes that a case or a deviation is about.

use std::fmt;

use serde::Deserialize;
use testcluster::Release;

/// Releases of Kubernetes; all of them where neither bound is named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Releases {
    /// The first of them.
    since: Option<Release>,
    /// The last of them.
    until: Option<Release>,
}

impl Releases {
    /// Returns whether a release is one of them.
    #[must_use]
    pub fn contain(self, release: Release) -> bool {
        self.since.is_none_or(|since| since <= release)
            && self.until.is_none_or(|until| release <= until)
    }

    /// Returns whether every release is one of them.
    #[must_use]
    pub fn are_all(self) -> bool {
        self == Self::default()
    }
}

/// Writes them as `Kubernetes 1.36 and newer`.
impl fmt::Display for Releases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.since, self.until) {
            (None, None) => f.write_str("Kubernetes"),
            (Some(since), None) => write!(f, "Kubernetes {since} and newer"),
            (None, Some(until)) => write!(f, "Kubernetes {until} and older"),
            (Some(since), Some(until)) => write!(f, "Kubernetes {since} to {until}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("{}", "1.1", true)]
    #[case("{since: '1.36'}", "1.35", false)]
    #[case("{since: '1.36'}", "1.36", true)]
    #[case("{until: '1.34'}", "1.34", true)]
    #[case("{until: '1.34'}", "1.35", false)]
    #[case("{since: '1.34', until: '1.35'}", "1.35", true)]
    #[case("{since: '1.34', until: '1.35'}", "1.36", false)]
    fn bounds_are_included(#[case] text: &str, #[case] release: &str, #[case] expected: bool) {
        let releases: Releases = serde_yaml::from_str(text).unwrap();
        assert_eq!(releases.contain(release.parse().unwrap()), expected);
    }

    #[rstest::rstest]
    #[case("{since: '1.36'}", "Kubernetes 1.36 and newer")]
    #[case("{until: '1.34'}", "Kubernetes 1.34 and older")]
    #[case("{since: '1.34', until: '1.35'}", "Kubernetes 1.34 to 1.35")]
    fn they_are_written_for_readers(#[case] text: &str, #[case] expected: &str) {
        let releases: Releases = serde_yaml::from_str(text).unwrap();
        assert_eq!(releases.to_string(), expected);
    }

    #[rstest::rstest]
    #[case("{since: newest}")]
    #[case("{from: '1.34'}")]
    fn other_bounds_are_refused(#[case] text: &str) {
        assert!(serde_yaml::from_str::<Releases>(text).is_err(), "{text}");
    }
}
