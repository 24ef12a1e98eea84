//! The places and parts of Kyverno.

/// Namespace of Kyverno.
pub const NAMESPACE: &str = "kyverno";
/// Kyverno's controllers: names of their Deployments and service accounts.
pub const CONTROLLERS: [&str; 3] = [
    "kyverno-admission-controller",
    "kyverno-reports-controller",
    "kyverno-background-controller",
];
