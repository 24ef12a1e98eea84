//! Differences that are intended, or are known and justified.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use testcluster::Release;

use super::ConformError;
use super::case::read_yaml;
use super::compare::{Difference, Place};
use super::releases::Releases;

/// A difference that is known, and the reason for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// Unique name.
    pub name: String,
    /// The reason, with the consequence and a way around.
    pub reason: String,
    /// Names of cases or rows; a `*` at the end stands for any end.
    pub cases: Vec<String>,
    /// The releases of Kubernetes whose CRDs differ.
    #[serde(default)]
    pub kubernetes: Releases,
    /// Places in the case; empty for anywhere.
    #[serde(default)]
    steps: Vec<At>,
    /// Text that the CRD's lines have to contain.
    #[serde(default)]
    pub crd: String,
    /// Text that our lines have to contain.
    #[serde(default)]
    pub ours: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum At {
    Step(usize),
    Named(Named),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Named {
    Events,
    Final,
}

impl Deviation {
    /// Returns whether it is about a case, or about a row of it.
    #[must_use]
    pub fn concerns(&self, case: &str) -> bool {
        self.cases.iter().any(|name| matches(name, case))
    }

    /// Returns whether it explains a difference.
    #[must_use]
    pub fn explains(&self, difference: &Difference) -> bool {
        let place = |at: &At| match at {
            At::Step(number) => difference.place == Place::Step(*number),
            At::Named(Named::Events) => difference.place == Place::Events,
            At::Named(Named::Final) => difference.place == Place::Final,
        };
        self.concerns(&difference.case)
            && (self.steps.is_empty() || self.steps.iter().any(place))
            && difference.crd.contains(&self.crd)
            && difference.ours.contains(&self.ours)
    }
}

/// Returns whether a name with a star at its end, or of a case with rows, covers `name`.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    if let Some(start) = pattern.strip_suffix('*') {
        return name.starts_with(start);
    }
    let case = name.split_once('/').map_or(name, |(case, _)| case);
    pattern == name || pattern == case
}

/// Returns the file of the deviations of this repository.
#[must_use]
pub fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deviations.yaml")
}

/// Returns all deviations, checked.
///
/// # Errors
/// If the file cannot be read or understood, or two have the same name.
pub fn load(path: &Path) -> Result<Vec<Deviation>, ConformError> {
    let deviations: Vec<Deviation> = read_yaml(path)?;
    let mut names = BTreeSet::new();
    for deviation in &deviations {
        let why = if !names.insert(&deviation.name) {
            format!("a second deviation is called '{}'", deviation.name)
        } else if deviation.cases.is_empty() {
            format!("'{}' names no case", deviation.name)
        } else {
            continue;
        };
        return Err(ConformError::Format {
            path: path.to_owned(),
            why,
        });
    }
    Ok(deviations)
}

/// Returns the deviations from the CRDs of this release of Kubernetes.
#[must_use]
pub fn on(release: Release, mut deviations: Vec<Deviation>) -> Vec<Deviation> {
    deviations.retain(|deviation| deviation.kubernetes.contain(release));
    deviations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deviation(text: &str) -> Deviation {
        serde_yaml::from_str(text).unwrap()
    }

    fn difference(case: &str, place: Place) -> Difference {
        Difference {
            case: case.to_owned(),
            variant: String::new(),
            place,
            asked: String::new(),
            crd: "504\n".to_owned(),
            ours: "410\n".to_owned(),
            diff: String::new(),
        }
    }

    #[rstest::rstest]
    #[case("a", "a", true)]
    #[case("a", "a/1", true)]
    #[case("a", "ab", false)]
    #[case("a/1", "a/1", true)]
    #[case("a/1", "a/2", false)]
    #[case("a*", "ab/1", true)]
    fn names(#[case] pattern: &str, #[case] name: &str, #[case] expected: bool) {
        assert_eq!(matches(pattern, name), expected);
    }

    #[test]
    fn place_and_both_texts_have_to_fit() {
        let text = "{name: n, reason: r, cases: [a], steps: [2, events], crd: '504', ours: '410'}";
        let known = deviation(text);
        assert!(known.explains(&difference("a", Place::Step(2))));
        assert!(known.explains(&difference("a", Place::Events)));
        assert!(!known.explains(&difference("a", Place::Step(3))));
        assert!(!known.explains(&difference("a", Place::Final)));
        assert!(!known.explains(&difference("b", Place::Step(2))));
        let other = deviation("{name: n, reason: r, cases: [a], crd: '500'}");
        assert!(!other.explains(&difference("a", Place::Step(2))));
    }

    #[test]
    fn those_of_other_releases_are_left_out() {
        let all = "[{name: old, reason: r, cases: [a], kubernetes: {until: '1.34'}},
            {name: any, reason: r, cases: [a]}]";
        let all: Vec<Deviation> = serde_yaml::from_str(all).unwrap();
        let names = |release: &str| {
            let known = on(release.parse().unwrap(), all.clone());
            known
                .into_iter()
                .map(|known| known.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names("1.34"), ["old", "any"]);
        assert_eq!(names("1.36"), ["any"]);
    }

    #[test]
    fn the_repositorys_deviations_speak_of_its_cases() {
        let files = super::super::case::load(&super::super::case::folder()).unwrap();
        let mut rows = vec![crate::conform::random::NAME.to_owned()];
        for case in files.iter().flat_map(|file| &file.cases) {
            rows.extend(case.rows().unwrap().into_iter().map(|row| row.name));
        }
        for deviation in load(&file()).unwrap() {
            for name in &deviation.cases {
                assert!(rows.iter().any(|row| matches(name, row)), "{name}");
            }
        }
    }
}
