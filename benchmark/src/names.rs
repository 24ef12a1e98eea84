//! The names of what is measured.

/// Namespaces with the base set.
pub const NAMESPACES: usize = 50;
/// Version under which all groups serve the reports.
pub const VERSION: &str = "v1alpha2";
/// Version of the ephemeral reports.
pub const EPHEMERAL_VERSION: &str = "v1";
/// Plural name of the reports.
pub const PLURAL: &str = "policyreports";

/// Name of namespace number `index` of the base set.
#[must_use]
pub fn namespace(index: usize) -> String {
    format!("bench-{:02}", index % NAMESPACES)
}
