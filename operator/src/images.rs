//! Image references: the release's default with the parts that the user replaces.

use crds::v1alpha1::spec::ImageSpec;

/// Returns the default reference with registry, repository and tag or digest replaced where given.
/// A digest wins over a tag, as it does in container runtimes.
#[must_use]
pub fn resolve(default: &str, registry: Option<&str>, image: &ImageSpec) -> String {
    let (default_registry, repository, version) = split(default);
    let registry = registry.map_or(default_registry, |r| r.trim_end_matches('/'));
    let repository = image.repository.as_deref().unwrap_or(repository);
    let version = match (&image.digest, &image.tag) {
        (Some(digest), _) => format!("@{digest}"),
        (None, Some(tag)) => format!(":{tag}"),
        (None, None) => version.to_owned(),
    };
    if registry.is_empty() {
        return format!("{repository}{version}");
    }
    format!("{registry}/{repository}{version}")
}

/// Returns the version that an image reference names: tag, digest or both; empty where it names
/// none.
#[must_use]
pub fn version(reference: &str) -> &str {
    split(reference).2.trim_start_matches([':', '@'])
}

/// Splits a reference into registry (may be empty), repository, and `:tag` or `@digest` (may be
/// empty). By the rule of the distribution project the first component is a registry only if it
/// looks like a host.
#[must_use]
pub fn split(reference: &str) -> (&str, &str, &str) {
    let (registry, rest) = match reference.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
        _ => ("", reference),
    };
    let end = rest.find([':', '@']).unwrap_or(rest.len());
    let (repository, version) = rest.split_at(end);
    (registry, repository, version)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const DEFAULT: &str = "registry.example:5000/reports/server:1.2";

    #[rstest]
    #[case(None, ImageSpec::default(), DEFAULT)]
    #[case(
        Some("mirror.example/x"),
        ImageSpec::default(),
        "mirror.example/x/reports/server:1.2"
    )]
    #[case(None, ImageSpec { tag: Some("2".into()), ..ImageSpec::default() },
        "registry.example:5000/reports/server:2")]
    #[case(None, ImageSpec { tag: Some("2".into()), digest: Some("sha256:ab".into()),
        repository: Some("own".into()), ..ImageSpec::default() },
        "registry.example:5000/own@sha256:ab")]
    fn parts_are_replaced(
        #[case] registry: Option<&str>,
        #[case] image: ImageSpec,
        #[case] expected: &str,
    ) {
        assert_eq!(resolve(DEFAULT, registry, &image), expected);
    }

    #[rstest]
    #[case("a/b", "")]
    #[case("localhost/b:1", "1")]
    #[case("r.example:5000/b", "")]
    #[case("r.example/b:1@sha256:cd", "1@sha256:cd")]
    fn version_is_read(#[case] reference: &str, #[case] expected: &str) {
        assert_eq!(version(reference), expected);
    }
}
