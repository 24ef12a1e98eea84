//! Objects for the tests, made by the real validation.

use std::collections::BTreeSet;

use crds::v1alpha1::ReportsServer;
use serde_json::{Value, json};

use super::build::ServiceAccountRef;
use super::found::{Dereferenced, Level, NamespacePolicy, NamespaceState};
use super::validate::{Between, Refusal, Stage, Validated, specification};
use crate::certs::{Material, Pair};
use crate::database::between::Source;

/// Image of the tests.
pub const IMAGE: &str = "registry.example/reports-server:1.2.3";

/// Image of PostgreSQL of the tests.
pub const POSTGRES_IMAGE: &str = "registry.example/library/postgres:17.11-bookworm";

/// Returns a `ReportsServer` called `simple`. Name, namespace and groups differ from each other and
/// from the project's own names, so that a mix-up shows.
pub fn object(mut spec: Value) -> ReportsServer {
    spec["targetNamespace"] = json!("target");
    serde_json::from_value(json!({
        "apiVersion": "reports-server.io/v1alpha1", "kind": "ReportsServer",
        "metadata": {"name": "simple", "uid": "uid-1", "generation": 3, "resourceVersion": "7",
            "creationTimestamp": "2026-01-02T00:00:00Z"},
        "spec": spec,
    }))
    .unwrap()
}

/// Facts of a cluster in which everything is as it should be.
pub fn read() -> Dereferenced {
    Dereferenced {
        namespace: NamespaceState::Active,
        policy: NamespacePolicy {
            is_target: true,
            level: Level::Restricted,
        },
        operator_namespace: "operator-ns".to_owned(),
        default_image: IMAGE.to_owned(),
        default_postgres_image: POSTGRES_IMAGE.to_owned(),
        cluster_uid: "uid-of-kube-system".to_owned(),
        ..Dereferenced::default()
    }
}

/// Validates, in a cluster in which everything is as it should be.
pub fn try_validate(spec: Value) -> Result<Validated, Refusal> {
    specification(&object(spec), &read())
}

/// Validates an object that is valid.
pub fn validated_object(object: &ReportsServer) -> Validated {
    specification(object, &read()).unwrap()
}

/// Validates what is valid.
pub fn validated(spec: Value) -> Validated {
    try_validate(spec).unwrap()
}

/// Certificates that are none, for builders that only pass them on.
pub fn material() -> Material {
    Material {
        ca: Some(Pair {
            cert: "new-ca\n".into(),
            key: "ca-key\n".into(),
        }),
        previous: vec!["old-ca\n".into()],
        trusted: None,
        others: Vec::new(),
        leaf: Some(Pair {
            cert: "leaf\n".into(),
            key: "leaf-key\n".into(),
        }),
        database_server: Some(Pair {
            cert: "database-leaf\n".into(),
            key: "database-key\n".into(),
        }),
        database_client: Some(Pair {
            cert: "client-leaf\n".into(),
            key: "client-key\n".into(),
        }),
    }
}

/// Returns a move from one PostgreSQL to another.
pub fn between(stage: Stage) -> Between {
    Between {
        stage,
        secret: None,
        told: None,
        waits_for: None,
        target: None,
        watched: BTreeSet::new(),
        egress: None,
        source: Source {
            name: "External (secret old)".to_owned(),
            remains: "it stays as it was".to_owned(),
            ..Source::default()
        },
    }
}

/// Returns the operator's `ServiceAccount`.
pub fn operator() -> ServiceAccountRef {
    ServiceAccountRef {
        namespace: "operator-ns".into(),
        name: "operator-sa".into(),
    }
}
