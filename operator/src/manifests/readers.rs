//! The rights of those who only read: the servers, people who may look, and the operator about readers
//! of its metrics.

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::rules::{self, READ, Reasoned, rule};

/// Returns what every server reads of the cluster.
#[must_use]
pub fn server() -> Vec<Reasoned> {
    let mut rules = followed();
    rules.extend(rules::reports().into_iter().map(onward));
    rules
}

/// Returns the right to go on with the watches of clients at the CRDs of these reports.
fn onward(reports: Reasoned) -> Reasoned {
    Reasoned {
        reason: "Goes on with the watches of clients at the CRDs when the group is given back.",
        rule: PolicyRule {
            verbs: vec!["watch".to_owned()],
            ..reports.rule
        },
    }
}

fn followed() -> Vec<Reasoned> {
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
        rule(
            "Has an embedded server send a copy of its database, which it has anyway, to the Jobs of \
             its backups: they run as its account.",
            "control.reports-server.io",
            &["databases/copy"],
            &["get"],
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

/// Returns the rights to ask who reads the operator's metrics, and who else is an operator. They show
/// rights and give none.
#[must_use]
pub fn reviews() -> Vec<Reasoned> {
    vec![
        rule(
            "Whose a token is that a reader of the operator's metrics sends.",
            "authentication.k8s.io",
            &["tokenreviews"],
            &["create"],
        ),
        rule(
            "Whether its owner may get /metrics, and whether another Lease of the operator's name is \
             that of an operator.",
            "authorization.k8s.io",
            &["subjectaccessreviews"],
            &["create"],
        ),
    ]
}

/// Returns the rights of a Prometheus.
#[must_use]
pub fn metrics() -> Vec<Reasoned> {
    vec![Reasoned {
        reason: "Read the metrics of servers and operator. Bind it to the account of your Prometheus.",
        rule: PolicyRule {
            non_resource_urls: Some(vec!["/metrics".to_owned()]),
            verbs: vec!["get".to_owned()],
            ..PolicyRule::default()
        },
    }]
}
