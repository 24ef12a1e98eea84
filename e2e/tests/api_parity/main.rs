//! The same requests, first to the CRDs in the kube-apiserver, then to the server that took their
//! place: the answers must be the same but for what differs from run to run.
#![allow(
    clippy::too_many_lines,
    reason = "a transcript reads from top to bottom"
)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy takes helpers outside #[test] functions for production code"
)]

#[path = "../api_support/mod.rs"]
mod api_support;
mod applies;
mod changes;
mod creates;
mod owners;
mod reads;
mod removals;
mod transcript;
mod watches;

use std::collections::BTreeMap;

use api_support::*;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use transcript::Transcript;

const NO_WRITE: &str = "the kube-apiserver writes whenever nulls or empty maps of metadata are applied, \
                        also if nothing changes";

/// Steps whose answers differ, and why.
const KNOWN: &[(&str, &str)] = &[
    ("put odd time", "an unreadable time is told in other words"),
    ("apply null label: same?", NO_WRITE),
    ("apply null labels: same?", NO_WRITE),
    ("apply empty values: same?", NO_WRITE),
];

#[tokio::test]
async fn a_client_cannot_tell_the_server_from_the_crd() {
    let mut setup = Setup::start_with(with_another_version).await;
    let crd = transcript(&setup).await.steps;
    setup.switch().await;
    let ours = transcript(&setup).await.steps;
    let mut differences = Vec::new();
    for ((step, want), (other, got)) in crd.iter().zip(&ours) {
        assert_eq!(step, other);
        if want != got && !KNOWN.iter().any(|(known, _)| step.starts_with(known)) {
            differences.push(format!("{step}\n  CRD:  {want}\n  ours: {got}"));
        }
    }
    assert_eq!(crd.len(), ours.len());
    assert!(
        differences.is_empty(),
        "{} of {} steps differ:\n{}",
        differences.len(),
        crd.len(),
        differences.join("\n")
    );
}

/// Adds a served version that knows less than the first.
fn with_another_version(crd: &mut CustomResourceDefinition) {
    let mut other = crd.spec.versions[0].clone();
    "v1beta1".clone_into(&mut other.name);
    other.storage = false;
    let schema = other.schema.as_mut().unwrap();
    let schema = schema.open_api_v3_schema.as_mut().unwrap();
    schema.properties.as_mut().unwrap().remove("scope");
    crd.spec.versions.push(other);
}

async fn transcript(setup: &Setup) -> Transcript<'_> {
    let mut t = Transcript {
        setup,
        steps: Vec::new(),
        uids: BTreeMap::new(),
    };
    reads::reads(&mut t).await;
    creates::creates(&mut t).await;
    creates::bodies(&mut t).await;
    changes::updates(&mut t).await;
    changes::patches(&mut t).await;
    owners::owners(&mut t).await;
    applies::applies(&mut t).await;
    removals::deletions(&mut t).await;
    removals::collections(&mut t).await;
    removals::paths(&mut t).await;
    watches::watches(&mut t).await;
    t
}
