//! Releases of Kubernetes, and those that tests run on.

use std::fmt;
use std::fs;
use std::str::FromStr;

use serde::Deserialize;

use super::error::IoContext;
use super::{Error, parts};

/// A minor release of Kubernetes, such as 1.36.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Release {
    major: u32,
    minor: u32,
}

impl Release {
    /// Returns the oldest release that tests run on, which `testcluster/kubernetes-oldest` pins.
    ///
    /// # Errors
    /// If its go.mod cannot be read, or pins none.
    pub fn oldest() -> Result<Self, Error> {
        Self::of_module("testcluster/kubernetes-oldest")
    }

    /// Returns the release that tests run on by default, which `testcluster/kubernetes` pins.
    ///
    /// # Errors
    /// As [`Release::oldest`].
    pub fn newest() -> Result<Self, Error> {
        Self::of_module("testcluster/kubernetes")
    }

    /// Returns the release that a Go module of the work tree requires.
    fn of_module(module: &str) -> Result<Self, Error> {
        let path = parts::work_tree().join(module).join("go.mod");
        let text = fs::read_to_string(&path).context(|| format!("read {}", path.display()))?;
        let mut requirements = text.lines().filter_map(|line| {
            let mut words = line.split_whitespace().filter(|word| *word != "require");
            words.next().zip(words.next())
        });
        match requirements.find(|(required, _)| *required == "k8s.io/kubernetes") {
            Some((_, version)) => version.parse(),
            None => Err(Error::Option(format!(
                "{} does not require k8s.io/kubernetes",
                path.display()
            ))),
        }
    }
}

/// Writes it as `1.36`.
impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Reads `1.36`, `v1.36.3` or `1.36+`.
impl FromStr for Release {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut numbers = text
            .strip_prefix('v')
            .unwrap_or(text)
            .split(['.', '+', '-']);
        let mut number = || numbers.next().and_then(|number| number.parse().ok());
        match (number(), number()) {
            (Some(major), Some(minor)) => Ok(Self { major, minor }),
            _ => Err(Error::Option(format!(
                "'{text}' is no release of Kubernetes, such as 1.36"
            ))),
        }
    }
}

impl TryFrom<String> for Release {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    fn release(text: &str) -> Release {
        text.parse().unwrap()
    }

    #[rstest::rstest]
    #[case("1.36", "1.36")]
    #[case("v1.34.12", "1.34")]
    #[case("1.33+", "1.33")]
    #[case("v1.36.0-rc.1", "1.36")]
    fn releases_are_read(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(release(text).to_string(), expected);
    }

    #[rstest::rstest]
    #[case("")]
    #[case("1")]
    #[case("newest")]
    fn other_texts_are_refused(#[case] text: &str) {
        assert!(text.parse::<Release>().is_err(), "{text}");
    }

    #[test]
    fn releases_are_ordered_by_number() {
        assert!(release("1.9") < release("1.10"));
        assert!(release("1.36") < release("2.0"));
    }

    /// Returns the files with this ending below a folder.
    fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(files(&path, ending));
            } else if path.extension().is_some_and(|end| end == ending) {
                found.push(path);
            }
        }
        found
    }

    /// Returns the releases that a text names as the least ones: `Kubernetes 1.36 or newer` in
    /// prose, and the fields of packages.
    fn least(text: &str) -> Vec<Release> {
        let mut found = Vec::new();
        for part in text.split("Kubernetes ").skip(1) {
            let (version, rest) = part.split_once(' ').unwrap_or((part, ""));
            if rest.starts_with("or newer") || rest.starts_with("or later") {
                found.extend(version.parse::<Release>());
            }
        }
        for field in ["minKubeVersion:", "kubeVersion:"] {
            for part in text.split(field).skip(1) {
                let value = part.lines().next().unwrap_or_default();
                let value = value.trim_matches(|c: char| !c.is_ascii_digit());
                found.push(release(value));
            }
        }
        found
    }

    #[test]
    fn least_releases_are_found() {
        let text = "Kubernetes 1.30 or later, Kubernetes 1.31 was\nminKubeVersion: 1.32.0\n\
                    kubeVersion: \">=1.33.0-0\"\n";
        let found: Vec<_> = least(text).iter().map(Release::to_string).collect();
        assert_eq!(found, ["1.30", "1.32", "1.33"]);
    }

    #[test]
    fn the_documents_claim_what_is_tested() {
        let (oldest, newest) = (Release::oldest().unwrap(), Release::newest().unwrap());
        assert!(oldest < newest);
        let root = parts::work_tree();
        let install = fs::read_to_string(root.join("docs/install.md")).unwrap();
        for claim in [
            format!("Kubernetes {oldest} or newer"),
            format!("Tests run on {oldest} and {newest};"),
        ] {
            assert!(install.contains(&claim), "no '{claim}' in docs/install.md");
        }
        let mut texts = vec![root.join("README.md")];
        for entry in fs::read_dir(&root).unwrap() {
            let folder = entry.unwrap().path();
            let built = folder.ends_with("target") || folder.join("CACHEDIR.TAG").exists();
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            if folder.is_dir() && !name.starts_with('.') && !built {
                texts.extend(files(&folder, "md"));
                texts.extend(files(&folder, "yaml"));
            }
        }
        for path in texts {
            let text = fs::read_to_string(&path).unwrap();
            for claimed in least(&text) {
                assert_eq!(claimed, oldest, "{}", path.display());
            }
        }
    }

    #[test]
    fn the_tests_in_go_use_the_client_of_the_newest() {
        let path = parts::work_tree().join("e2e/clients/go.mod");
        let text = fs::read_to_string(path).unwrap();
        let newest = Release::newest().unwrap();
        let client = format!("k8s.io/client-go v0.{}.", newest.minor);
        assert!(text.contains(&client), "no {client} in e2e/clients/go.mod");
    }
}
