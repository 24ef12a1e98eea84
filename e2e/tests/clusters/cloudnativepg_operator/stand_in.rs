//! The stand-in of the other tests, held against the real one.

use std::collections::BTreeMap;

use super::provider::{CLUSTER, secrets, value, value_of};
use e2e::cnpg;
use e2e::takeover::{TARGET_NAMESPACE, Takeover};
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

/// Secrets, Services and status are as the stand-in has them, wherever anybody reads them.
pub async fn is_alike(line: &Takeover, cluster: &Value) {
    Box::pin(secrets_are_alike(line)).await;
    Box::pin(services_are_alike(line)).await;
    let status = &cluster["status"];
    assert_eq!(status["phase"], "Cluster in healthy state");
    assert_eq!(status["writeService"], format!("{CLUSTER}-rw"));
    assert_eq!(status["readService"], format!("{CLUSTER}-r"));
    let certificates = &status["certificates"];
    assert_eq!(certificates["serverCASecret"], format!("{CLUSTER}-ca"));
    assert_eq!(certificates["clientCASecret"], format!("{CLUSTER}-ca"));
}

async fn secrets_are_alike(line: &Takeover) {
    let app = format!("{CLUSTER}-app");
    let password = value_of(line, &app, "password").await;
    let real = secrets(line).get(&app).await.unwrap();
    let ours = cnpg::app(TARGET_NAMESPACE, CLUSTER, &password);
    assert_eq!(json!(contents(&real)), ours["stringData"]);
    same_kind(&real, &ours);

    let real = secrets(line).get(&format!("{CLUSTER}-ca")).await.unwrap();
    let pem = value(&real, "ca.crt").unwrap();
    let ours = cnpg::ca(TARGET_NAMESPACE, CLUSTER, &pem);
    let mut contents = contents(&real);
    assert!(contents.remove("ca.key").is_some(), "the key of the CA");
    assert_eq!(json!(contents), ours["stringData"]);
    same_kind(&real, &ours);
}

fn contents(secret: &Secret) -> BTreeMap<String, String> {
    let keys = secret.data.iter().flatten().map(|(key, _)| key);
    keys.map(|key| (key.clone(), value(secret, key).unwrap()))
        .collect()
}

/// Type and labels; the real one may have more labels.
fn same_kind(real: &Secret, ours: &Value) {
    assert_eq!(json!(real.type_), ours["type"]);
    let labels = ours["metadata"]["labels"].as_object();
    for (label, wanted) in labels.into_iter().flatten() {
        let found = real.labels().get(label);
        assert_eq!(json!(found), *wanted, "{label} of {}", real.name_any());
    }
}

async fn services_are_alike(line: &Takeover) {
    let services: Api<Service> = Api::namespaced(line.client.clone(), TARGET_NAMESPACE);
    for ours in cnpg::services(TARGET_NAMESPACE, CLUSTER) {
        let name = ours["metadata"]["name"].as_str().unwrap();
        let real = json!(services.get(name).await.unwrap());
        assert_eq!(real["spec"]["selector"], ours["spec"]["selector"], "{name}");
        let (real, ours) = (&real["spec"]["ports"][0], &ours["spec"]["ports"][0]);
        for field in ["name", "port", "targetPort"] {
            assert_eq!(real[field], ours[field], "{field} of {name}");
        }
    }
}
