//! A GitOps tool that applies the CRDs again and again while the group goes back.

use std::time::Duration;

use e2e::processes::LIMIT;
use e2e::takeover::GROUPS;
use e2e::witness::State;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::interference::{GITOPS, start};

/// Time between two applications of the CRDs. The door takes a second to open and the rest of the
/// way back is done in less than half of one, so a longer pause lets it through now and then.
const APPLIED_EVERY: Duration = Duration::from_millis(250);

/// Versions of the group's CRDs as they are now, by name of the CRD.
async fn versions(client: &Client) -> Vec<(String, Value)> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut versions = Vec::new();
    for name in ["policyreports", "clusterpolicyreports"] {
        let crd = crds.get(&format!("{name}.{}", GROUPS[0])).await.unwrap();
        versions.push((crd.metadata.name.unwrap(), json!(crd.spec.versions)));
    }
    versions
}

/// Puts the versions of CRDs to `shipped`, every now and then.
pub fn apply_again_and_again(
    client: &Client,
    shipped: Vec<(String, Value)>,
) -> AbortOnDropHandle<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    AbortOnDropHandle::new(tokio::spawn(async move {
        let params = PatchParams {
            field_manager: Some(GITOPS.to_owned()),
            ..PatchParams::default()
        };
        loop {
            for (name, versions) in &shipped {
                let patch = Patch::Merge(json!({"spec": {"versions": versions}}));
                crds.patch(name, &params, &patch).await.unwrap();
            }
            tokio::time::sleep(APPLIED_EVERY).await;
        }
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn crds_that_are_applied_in_a_loop_are_named_and_nothing_is_lost() {
    let (processes, _server) = start().await;
    let there = processes.migrate("there", None, &["--keep"]).unwrap();
    let there = there.ended(LIMIT).await.unwrap();
    assert!(there.done, "{}", there.log);
    let client = processes.cluster.client().await.unwrap();
    let before = State::read(&client).await.unwrap();

    let applied = apply_again_and_again(&client, versions(&client).await);
    let back = processes.migrate("back", None, &["--back"]).unwrap();
    let line = back
        .says(&["CRDReapplied (stalled)", GITOPS])
        .await
        .unwrap();
    for word in ["/spec/versions", "ignoreDifferences"] {
        assert!(line.contains(word), "{line}");
    }
    // Meanwhile the server serves.
    let now = State::read(&client).await.unwrap();
    assert_eq!(now.0, before.0);
    drop(applied);
    let back = back.ended(LIMIT).await.unwrap();
    assert!(back.done, "{}", back.log);
    let after = State::read(&client).await.unwrap();
    let contents = |state: &State| {
        let objects = state.0.iter();
        let content = objects.map(|(key, object)| (key.clone(), object.content.clone()));
        content.collect::<Vec<_>>()
    };
    assert_eq!(contents(&after), contents(&before));
}
