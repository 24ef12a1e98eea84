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
            format!("{name}-{service}.{namespace}.svc.cluster.local"),
        ]
    });
    names.collect()
}

fn metadata(namespace: &str, cluster: &str, name: &str) -> Value {
    json!({"name": name, "namespace": namespace, "labels": {"cnpg.io/cluster": cluster}})
}

/// Returns `NAME-app`: the parameters by which the application connects.
#[must_use]
pub fn app(namespace: &str, name: &str, password: &str) -> Value {
    let host = format!("{name}-rw");
    let short = format!("{host}.{namespace}");
    let full = format!("{short}.svc.cluster.local");
    let uri = |host: &str| format!("postgresql://{USER}:{password}@{host}:5432/{DATABASE}");
    let jdbc = |host: &str| {
        format!("jdbc:postgresql://{host}:5432/{DATABASE}?password={password}&user={USER}")
    };
    let mut metadata = metadata(namespace, name, &format!("{name}-app"));
    metadata["labels"]["cnpg.io/userType"] = json!("app");
    metadata["labels"]["cnpg.io/reload"] = json!("true");
    json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/basic-auth",
    "metadata": metadata,
    "stringData": {
        "username": USER, "user": USER, "password": password, "dbname": DATABASE,
        "host": host, "port": "5432",
        "uri": uri(&short), "jdbc-uri": jdbc(&short),
        "fqdn-uri": uri(&full), "fqdn-jdbc-uri": jdbc(&full),
        "pgpass": format!("{host}:5432:{DATABASE}:{USER}:{password}\n"),
    }})
}

/// Returns `NAME-ca`: the authority that signs the servers' certificates. The key, which no client
/// needs, is left out. It has no label of the `Cluster`.
#[must_use]
pub fn ca(namespace: &str, name: &str, pem: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": format!("{name}-ca"), "namespace": namespace},
        "stringData": {"ca.crt": pem}})
}

/// Returns the Services to the primary, to the standbys, to all.
#[must_use]
pub fn services(namespace: &str, name: &str) -> Vec<Value> {
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
