//! A real kube-apiserver takes the published CRDs, stores every field of a `ReportsServer`, and
//! refuses what the rules refuse.
use std::time::Duration;

use crds::v1alpha1::ReportsServer;
use crds::{catalog, names};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::conditions;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt as _};
use serde::Deserialize as _;
use serde_json::{Value, json};
use testcluster::{Cluster, ClusterOptions};

#[tokio::test]
async fn the_published_crds() {
    let cluster = Cluster::start(ClusterOptions::default()).await.unwrap();
    let client = cluster.client().await.unwrap();
    install(&client, crds::v1alpha1::reports_server_crd().unwrap()).await;
    for resource in catalog::resources() {
        install(&client, catalog::to_crd(resource).unwrap()).await;
    }
    every_field_is_stored(&client).await;
    bad_objects_are_refused_with_the_field(&client).await;
    a_bad_report_is_refused_with_the_field(&client).await;
    kubectl_shows_the_columns(&cluster).await;
}

async fn install(client: &Client, crd: CustomResourceDefinition) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = crd.name_any();
    api.create(&PostParams::default(), &crd)
        .await
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let established = await_condition(api.clone(), &name, conditions::is_crd_established());
    tokio::time::timeout(Duration::from_secs(30), established)
        .await
        .unwrap_or_else(|_| panic!("{name} is not established"))
        .unwrap();
    let crd = api.get(&name).await.unwrap();
    for condition in crd
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
    {
        assert_ne!(
            condition.type_, "NonStructuralSchema",
            "{name}: {:?}",
            condition.message
        );
    }
}

fn fixtures() -> Vec<Value> {
    let text = include_str!("../../../crds/tests/fixtures/reports-servers.yaml");
    serde_yaml::Deserializer::from_str(text)
        .map(|document| Value::deserialize(document).unwrap())
        .collect()
}

/// Everything that the operator writes through the types comes back as it was: nothing is pruned or
/// refused.
async fn every_field_is_stored(client: &Client) {
    let api: Api<ReportsServer> = Api::all(client.clone());
    for fixture in fixtures() {
        let wanted: ReportsServer = serde_json::from_value(fixture.clone()).unwrap();
        let name = wanted.name_any();
        let spec = json!({
            "apiVersion": fixture["apiVersion"],
            "kind": fixture["kind"],
            "metadata": fixture["metadata"],
            "spec": fixture["spec"],
        });
        let apply = PatchParams::apply(names::FIELD_MANAGER).validation_strict();
        api.patch(&name, &apply, &Patch::Apply(&spec))
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        if wanted.status.is_some() {
            let status = json!({
                "apiVersion": fixture["apiVersion"],
                "kind": fixture["kind"],
                "metadata": {"name": name},
                "status": fixture["status"],
            });
            let apply = PatchParams::apply(names::STATUS_FIELD_MANAGER).validation_strict();
            api.patch_status(&name, &apply, &Patch::Apply(&status))
                .await
                .unwrap();
        }
        let stored = api.get(&name).await.unwrap();
        assert_eq!(stored.spec, wanted.spec, "{name}");
        assert_eq!(stored.status, wanted.status, "{name}");
    }
    assert_eq!(
        api.list(&ListParams::default()).await.unwrap().items.len(),
        fixtures().len()
    );
}

async fn bad_objects_are_refused_with_the_field(client: &Client) {
    let api: Api<ReportsServer> = Api::all(client.clone());
    for (change, field, message) in [
        (
            json!({"targetNamespace": "other"}),
            "spec.targetNamespace",
            "immutable",
        ),
        (json!({"apis": []}), "spec", "cannot be left out of apis"),
        (
            json!({"migration": {"soak": "5 days"}}),
            "spec.migration.soak",
            "should match",
        ),
        (
            json!({"migration": {"soak": "9000h"}}),
            "spec.migration.soak",
            "8784h",
        ),
        (
            json!({"database": {"mode": "Other"}}),
            "spec.database.mode",
            "Unsupported value",
        ),
        (
            json!({"database": {"embedded": {"storage": {"size": "1Gi"}}}}),
            "spec.database.embedded.storage.size",
            "can only grow",
        ),
        (
            json!({"database": {"embedded": {"storage": {"storageClassName": null}}}}),
            "spec.database.embedded.storage.storageClassName",
            "immutable",
        ),
        (
            json!({"database": {"embedded": null}}),
            "spec.database.embedded.storage.storageClassName",
            "immutable",
        ),
    ] {
        let patch = Patch::Merge(json!({"spec": change}));
        let error = api
            .patch("embedded", &PatchParams::default(), &patch)
            .await
            .unwrap_err();
        assert_invalid(&error, field, message);
    }
    let mut named: ReportsServer = serde_json::from_value(fixtures().remove(1)).unwrap();
    named.metadata.name = Some("has.dots".into());
    let error = api
        .create(&PostParams::default(), &named)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("DNS label"), "{error}");
}

async fn a_bad_report_is_refused_with_the_field(client: &Client) {
    let resource = kube::core::ApiResource {
        group: "wgpolicyk8s.io".into(),
        version: "v1alpha2".into(),
        api_version: "wgpolicyk8s.io/v1alpha2".into(),
        kind: "PolicyReport".into(),
        plural: "policyreports".into(),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
    let report = |result: &str| {
        DynamicObject::new("test", &resource)
            .data(json!({"results": [{"policy": "p", "result": result}]}))
    };
    let error = api
        .create(&PostParams::default(), &report("odd"))
        .await
        .unwrap_err();
    assert_invalid(&error, "results[0].result", "Unsupported value");
    api.create(&PostParams::default(), &report("fail"))
        .await
        .unwrap();
}

fn assert_invalid(error: &kube::Error, field: &str, message: &str) {
    let kube::Error::Api(status) = error else {
        panic!("{error}")
    };
    assert_eq!(status.code, 422, "{status:?}");
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let named = causes
        .filter(|cause| cause.field == field)
        .any(|cause| cause.message.contains(message));
    assert!(named, "wanted {message:?} at {field}, got {status:?}");
}

async fn kubectl_shows_the_columns(cluster: &Cluster) {
    let table = cluster
        .kubectl(["get", "rsrv", "embedded", "-o", "wide"])
        .await
        .unwrap();
    let words: Vec<&str> = table.split_whitespace().collect();
    let heads = [
        "NAME",
        "READY",
        "MIGRATION",
        "PROGRESS",
        "DATABASE",
        "SERVED",
        "AGE",
        "MESSAGE",
        "SERVER",
        "PRIMARY",
        "CERTEXPIRY",
    ];
    assert_eq!(words[..heads.len()], heads, "{table}");
    assert_eq!(
        words[heads.len()..][..6],
        [
            "embedded",
            "True",
            "Retaining",
            "1,234/9,000",
            "Embedded",
            "1/2"
        ]
    );
    // The kube-apiserver publishes the schemas of new CRDs a moment after it serves them.
    let explained = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            match cluster.kubectl(["explain", "polr.results"]).await {
                Ok(text) if text.contains("Outcome of one check of one policy.") => break,
                _ => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    });
    explained
        .await
        .expect("kubectl explain does not know the catalog's words");
}
