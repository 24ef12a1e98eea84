//! A walk from each right of operator and server to the most that it gives, as docs/security.md tells
//! it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::readers;
use super::rules::{self, Reasoned};
use crate::controller::config_reader_rules;

/// The heading of the table of rights in docs/security.md.
const HEADING: &str = "## What each right gives";
/// Rights that lead to others, and what their rows have to say.
const LEADS_TO: [(&str, &str, &str, &str); 15] = [
    ("cluster", "clusterrolebindings", "create", "cluster-admin"),
    ("cluster", "clusterrolebindings", "patch", "cluster-admin"),
    ("cluster", "rolebindings", "create", "cluster-admin"),
    ("cluster", "rolebindings", "patch", "cluster-admin"),
    ("cluster", "clusterroles", "bind", "without having them"),
    ("cluster", "roles", "bind", "client CA"),
    ("cluster", "apiservices", "create", "answer them"),
    ("target", "secrets", "create", "token of every account"),
    ("target", "serviceaccounts", "create", "cloud identities"),
    ("target", "deployments", "create", "any account"),
    ("target", "statefulsets", "create", "any account"),
    ("target", "cronjobs", "create", "any account"),
    ("target", "jobs", "create", "any account"),
    ("target", "roles", "create", "hand out"),
    ("target", "rolebindings", "create", "hand out"),
];
/// Verbs that lead to other rights, whatever they are for.
const LEADING_VERBS: [&str; 3] = ["bind", "escalate", "impersonate"];
/// Resources that lead to other rights for those who can create them.
const LEADING: [&str; 16] = [
    "apiservices",
    "clusterrolebindings",
    "clusterroles",
    "cronjobs",
    "daemonsets",
    "deployments",
    "jobs",
    "pods",
    "replicasets",
    "replicationcontrollers",
    "rolebindings",
    "roles",
    "secrets",
    "serviceaccounts",
    "serviceaccounts/token",
    "statefulsets",
];

/// A right: where it is granted, resource and group, verb.
type Right = (String, String, String);

/// Returns every right that operator and server have by our roles.
fn granted() -> BTreeSet<Right> {
    let server = readers::server().into_iter().map(|r| r.rule);
    let server = server.chain(config_reader_rules("config".to_owned()));
    let of = |rules: Vec<Reasoned>| rules.into_iter().map(|r| r.rule).collect();
    let all: [(&str, Vec<PolicyRule>); 6] = [
        ("cluster", of(rules::cluster())),
        ("cluster", of(readers::reviews())),
        ("reports", of(rules::reports())),
        ("target", of(rules::operand())),
        ("own", of(rules::own_namespace())),
        ("server", server.collect()),
    ];
    let mut rights = BTreeSet::new();
    for (place, rule) in all
        .into_iter()
        .flat_map(|(place, rules)| rules.into_iter().map(move |rule| (place, rule)))
    {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                let full = match group.as_str() {
                    "" => resource.clone(),
                    group => format!("{resource}.{group}"),
                };
                rights.extend(
                    rule.verbs
                        .iter()
                        .map(|verb| (place.to_owned(), full.clone(), verb.clone())),
                );
            }
        }
    }
    rights
}

/// Returns the rights of the table, each with the most that it gives.
fn told() -> BTreeMap<Right, String> {
    let page = include_str!("../../../docs/security.md");
    let section = page.split_once(HEADING).unwrap().1;
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| "));
    let mut told = BTreeMap::new();
    for row in rows.skip(1) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [place, right, most, bound] = cells[..] else {
            panic!("four cells: {row}")
        };
        assert!(!most.is_empty() && !bound.is_empty(), "{row}");
        let (verbs, resources) = right.split_once(": ").unwrap();
        for resource in resources.split(", ") {
            let resource = resource.trim_matches('`');
            for verb in verbs.split(", ") {
                let right = (place.to_owned(), resource.to_owned(), verb.to_owned());
                let before = told.insert(right.clone(), most.to_owned());
                assert!(before.is_none(), "told twice: {right:?}");
            }
        }
    }
    told
}

#[test]
fn the_most_that_each_right_gives_is_told() {
    let told = told();
    let rows: BTreeSet<Right> = told.keys().cloned().collect();
    let granted = granted();
    let untold: Vec<_> = granted.difference(&rows).collect();
    assert!(untold.is_empty(), "rights without a row: {untold:?}");
    let gone: Vec<_> = rows.difference(&granted).collect();
    assert!(gone.is_empty(), "rows without a right: {gone:?}");
}

#[test]
fn rights_that_lead_to_others_are_told_as_such() {
    let told = told();
    for (place, resource, verb, words) in LEADS_TO {
        let row = told.iter().find(|((at, full, of), _)| {
            at == place && full.split('.').next() == Some(resource) && of == verb
        });
        let (_, most) = row.unwrap_or_else(|| panic!("{place}: no {verb} {resource}"));
        assert!(most.contains(words), "{place}: {verb} {resource}: {most}");
    }
    for (place, full, verb) in told.keys() {
        let resource = full.split('.').next().unwrap_or_default();
        let leads = LEADING_VERBS.contains(&verb.as_str())
            || (verb == "create" && LEADING.contains(&resource));
        let known = LEADS_TO
            .iter()
            .any(|(at, name, of, _)| at == place && *name == resource && of == verb);
        assert!(!leads || known, "{place}: where does {verb} {full} lead?");
    }
}
