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
/// The time of the release, which sets it.
pub(super) const CREATED_AT: &str = "2026-11-27T00:00:00Z";
/// The level that `docs/capability-levels.md` has evidence for.
pub(super) const CAPABILITIES: &str = "Basic Install";
/// The oldest Kubernetes that tests run on.
pub(super) const MIN_KUBERNETES: &str = "1.34.0";
/// The project's page.
pub(super) const HOME: &str = "https://reports-server.io";
/// The project's name for people.
pub(super) const DISPLAY_NAME: &str = "Reports Server";
/// The maintainers of the project.
pub(super) const MAINTAINERS: &str = "Maintainers of Reports Server";
/// The address at which they are reached.
pub(super) const MAINTAINERS_EMAIL: &str = "maintainers@reports-server.io";
/// One sentence, of which catalogs show at most 135 characters.
pub(super) const SUMMARY: &str =
    "Takes policy reports out of etcd, by an aggregated API server that an operator runs";
/// The project's icon.
pub(super) const ICON: &str = include_str!("files/icon.svg");
/// Media type of [`ICON`].
pub(super) const ICON_TYPE: &str = "image/svg+xml";

/// Returns the name of the release's bundle and `ClusterServiceVersion`.
pub(super) fn bundle_name() -> String {
    format!("{PACKAGE}.v{VERSION}")
}

/// Returns the versions from which OLM upgrades to this release at once. A release works on
/// whatever an earlier one left, so no release between them is needed.
pub(super) fn skip_range() -> String {
    format!("<{VERSION}")
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
