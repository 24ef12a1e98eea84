//! The rights of those who only read: the servers, and people who may look.

use super::rules::{READ, Reasoned, rule};

/// Returns what every server reads of the cluster.
#[must_use]
pub fn server() -> Vec<Reasoned> {
    vec![
        rule(
            "A missing or terminating namespace refuses reports, as it does with the \
             kube-apiserver.",
            "",
            &["namespaces"],
            READ,
        ),
        rule(
            "Schemas, names and columns of the served groups.",
            "apiextensions.k8s.io",
            &["customresourcedefinitions"],
            READ,
        ),
        rule(
            "Whether requests are still sent to the server: while they are not, they wait.",
            "apiregistration.k8s.io",
            &["apiservices"],
            READ,
        ),
    ]
}

/// Returns the rights of people who may look.
#[must_use]
pub fn view() -> Vec<Reasoned> {
    vec![
        rule(
            "See whether the migration is done and well.",
            "reports-server.io",
            &["reportsservers"],
            READ,
        ),
        rule(
            "See what the server holds.",
            "control.reports-server.io",
            &["databases", "storedresources"],
            READ,
        ),
    ]
}
