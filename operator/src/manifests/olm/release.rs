//! The names of a release in a catalog, and the facts about it that people read there.

use crate::images::split;
use crate::manifests::place::Place;
use crate::names::OPERATOR;

/// Name of the package.
pub(super) const PACKAGE: &str = OPERATOR;
/// The channel of the package.
pub(super) const CHANNEL: &str = "candidate";
/// Version of the release.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The level that `docs/capability-levels.md` has evidence for.
pub(super) const CAPABILITIES: &str = "Basic Install";
/// The oldest Kubernetes that tests run on.
pub(super) const MIN_KUBERNETES: &str = "1.34.0";
/// The project's page.
pub(super) const HOME: &str = env!("CARGO_PKG_HOMEPAGE");
/// The project's name for people.
pub(super) const DISPLAY_NAME: &str = "Reports Server";
/// One sentence, of which catalogs show at most 135 characters.
pub(super) const SUMMARY: &str =
    "Takes policy reports out of etcd, by an aggregated API server that an operator runs";
/// The project's icon.
pub(super) const ICON: &str = include_str!("files/icon.svg");
/// Media type of [`ICON`].
pub(super) const ICON_TYPE: &str = "image/svg+xml";

/// Returns the name of the maintainers, and the address at which they are reached.
pub(super) fn maintainers() -> (&'static str, &'static str) {
    let authors = env!("CARGO_PKG_AUTHORS");
    let (name, address) = authors.split_once(" <").unwrap_or((authors, ""));
    (name, address.trim_end_matches('>'))
}

/// All releases and their days.
const CHANGELOG: &str = include_str!("../../../../CHANGELOG.md");

/// Returns the time of the release, by the changelog; none before it is released.
pub(super) fn created_at() -> Option<String> {
    released(CHANGELOG, VERSION)
}

/// Returns the begin of the day that a changelog has beside a version.
fn released(changelog: &str, version: &str) -> Option<String> {
    let heading = format!("## [{version}] - ");
    let mut lines = changelog.lines();
    let day = lines.find_map(|line| line.strip_prefix(heading.as_str()))?;
    Some(format!("{}T00:00:00Z", day.trim()))
}

/// Returns the name of the release's bundle and `ClusterServiceVersion`.
pub(super) fn bundle_name() -> String {
    bundle_of(VERSION)
}

fn bundle_of(version: &str) -> String {
    format!("{PACKAGE}.v{version}")
}

/// The releases from which OLM upgrades to this one.
pub(super) struct Edge {
    /// The bundle of the release before.
    pub replaces: String,
    /// Versions from that of the release before on.
    pub skip_range: String,
}

/// Returns the edge to this release. An operator runs the servers of the release before, and no
/// older ones, so OLM goes through each release. The first one replaces none.
pub(super) fn edge() -> Option<Edge> {
    let before = released_before(CHANGELOG, VERSION)?;
    Some(Edge {
        replaces: bundle_of(&before),
        skip_range: format!(">={before} <{VERSION}"),
    })
}

/// Returns the release that a changelog has below a version, or its newest one where it does not
/// have the version yet.
fn released_before(changelog: &str, version: &str) -> Option<String> {
    let lines = changelog.lines();
    let headings = lines.filter_map(|line| line.strip_prefix("## [")?.split_once("] - "));
    let releases: Vec<&str> = headings.map(|(release, _)| release).collect();
    let own = releases.iter().position(|release| *release == version);
    let before = releases.get(own.map_or(0, |own| own + 1))?;
    Some((*before).to_owned())
}

/// Returns the image of the bundle.
pub(super) fn bundle_image(place: &Place) -> String {
    beside_operator(place, "bundle")
}

/// Returns the image of the catalog.
pub(super) fn catalog_image(place: &Place) -> String {
    beside_operator(place, "catalog")
}

fn beside_operator(place: &Place, what: &str) -> String {
    let (registry, repository, _) = split(&place.operator_image);
    format!("{registry}/{repository}-{what}:{VERSION}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_the_day_of_its_section() {
        let changelog = "## [Unreleased]\n\n## [0.2.0] - 2027-02-01\n\n## [0.1.0] - 2027-01-31\n";
        let day = released(changelog, "0.1.0");
        assert_eq!(day.as_deref(), Some("2027-01-31T00:00:00Z"));
        assert_eq!(released(changelog, "0.3.0"), None);
    }

    #[test]
    fn a_release_replaces_the_one_below_it() {
        let changelog = "## [Unreleased]\n\n## [0.2.0] - 2027-02-01\n\n## [0.1.0] - 2027-01-31\n";
        let before = |version| released_before(changelog, version);
        assert_eq!(before("0.3.0").as_deref(), Some("0.2.0"));
        assert_eq!(before("0.2.0").as_deref(), Some("0.1.0"));
        assert_eq!(before("0.1.0"), None);
        assert_eq!(released_before("## [Unreleased]\n", "0.1.0"), None);
    }

    #[test]
    fn the_maintainers_have_a_name_and_an_address() {
        let (name, address) = maintainers();
        assert!(!name.is_empty() && !name.contains(['<', '@']), "{name}");
        assert!(
            address.contains('@') && !address.contains(['<', '>']),
            "{address}"
        );
    }
}
