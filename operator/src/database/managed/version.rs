//! Versions and images of PostgreSQL.

/// Image of mode `Managed` where none is given: the newest minor version at the time of the
/// release. This and [`SUPPORTED`] are the only places to change for another one.
pub const DEFAULT_IMAGE: &str = "docker.io/library/postgres:17.11-bookworm";

/// Major versions, and the tag of the official image for each.
pub const SUPPORTED: [(u32, &str); 5] = [
    (14, "14.24-bookworm"),
    (15, "15.19-bookworm"),
    (16, "16.15-bookworm"),
    (17, "17.11-bookworm"),
    (18, "18.6-bookworm"),
];

/// Returns the major version that a tag begins with, such as 17 of `17.11-bookworm`.
#[must_use]
pub fn major(tag: &str) -> Option<u32> {
    let digits = tag.len() - tag.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    tag[..digits].parse().ok()
}

/// Returns the tag of the official image for a major version.
#[must_use]
pub fn tag(version: u32) -> Option<&'static str> {
    let found = SUPPORTED.iter().find(|(major, _)| *major == version);
    found.map(|(_, tag)| *tag)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("17.11-bookworm", Some(17))]
    #[case("15", Some(15))]
    #[case("latest", None)]
    #[case("", None)]
    fn a_tag_names_its_major_version(#[case] name: &str, #[case] expected: Option<u32>) {
        assert_eq!(major(name), expected);
    }

    #[test]
    fn every_tag_is_of_its_version_and_the_default_is_one_of_them() {
        for (version, tag) in SUPPORTED {
            assert_eq!(major(tag), Some(version));
        }
        let (_, default) = DEFAULT_IMAGE.rsplit_once(':').unwrap();
        assert!(SUPPORTED.iter().any(|(_, tag)| *tag == default));
    }
}
