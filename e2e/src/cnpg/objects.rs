//! Secrets and Services as `CloudNativePG` makes them.

use std::net::SocketAddr;

use pgtest::{DATABASE, USER};
use serde_json::{Value, json};

/// Returns the names in the servers' certificates.
pub(super) fn names(namespace: &str, name: &str) -> Vec<String> {
    let services = ["rw", "r", "ro"];
    let names = services.iter().flat_map(|service| {
        [
            format!("{name}-{service}"),
            format!("{name}-{service}.{namespace}"),
            format!("{name}-{service}.{namespace}.svc"),
        ]
    });
    names.collect()
}

fn metadata(namespace: &str, cluster: &str, name: &str) -> Value {
    json!({"name": name, "namespace": namespace, "labels": {"cnpg.io/cluster": cluster}})
}

/// Returns `NAME-app`: the parameters by which the application connects.
pub(super) fn app(namespace: &str, name: &str, password: &str) -> Value {
    let host = format!("{name}-rw");
    let full = format!("{host}.{namespace}");
    json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/basic-auth",
    "metadata": metadata(namespace, name, &format!("{name}-app")),
    "stringData": {
        "username": USER, "user": USER, "password": password, "dbname": DATABASE,
        "host": host, "port": "5432",
        "uri": format!("postgresql://{USER}:{password}@{full}:5432/{DATABASE}"),
        "jdbc-uri": format!(
            "jdbc:postgresql://{full}:5432/{DATABASE}?password={password}&user={USER}"),
        "pgpass": format!("{host}:5432:{DATABASE}:{USER}:{password}\n"),
    }})
}

/// Returns `NAME-ca`: the authority that signs the servers' certificates. The key, which no client
/// needs, is left out.
pub(super) fn ca(namespace: &str, name: &str, pem: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": metadata(namespace, name, &format!("{name}-ca")),
        "stringData": {"ca.crt": pem}})
}

/// Returns the Services to the primary, to the standbys, to all.
pub(super) fn services(namespace: &str, name: &str) -> Vec<Value> {
    let service = |suffix: &str, selector: Value| {
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": metadata(namespace, name, &format!("{name}-{suffix}")),
            "spec": {"selector": selector,
                "ports": [{"name": "postgres", "port": 5432, "targetPort": 5432}]}})
    };
    let role = |role: &str| json!({"cnpg.io/cluster": name, "cnpg.io/instanceRole": role});
    vec![
        service("rw", role("primary")),
        service("ro", role("replica")),
        service(
            "r",
            json!({"cnpg.io/cluster": name, "cnpg.io/podRole": "instance"}),
        ),
    ]
}

/// Returns the endpoints of `NAME-rw`: `address`, since the primary is no pod that its selector
/// could find.
pub(super) fn endpoints(namespace: &str, name: &str, address: SocketAddr) -> Value {
    let service = format!("{name}-rw");
    let mut metadata = metadata(namespace, name, &service);
    metadata["labels"]["kubernetes.io/service-name"] = json!(service);
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address.ip()], "conditions": {"ready": true}}],
        "ports": [{"name": "postgres", "protocol": "TCP", "port": address.port()}]})
}
