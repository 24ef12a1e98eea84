//! The children as a cluster would get them.

mod between;
mod embedded;
mod examples;
mod managed;
mod monitoring;
mod network;
mod pods;
mod upgrade;

use crds::v1alpha1::spec::DatabaseMode;
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Children, Validated, build};
use crate::controller::fixtures::{material, operator, validated};
use crate::controller::validate::{Autoscaling, Replicas, Scale};
use crate::database::managed::Known;
use crate::database::moving::Moving;
use crate::database::place::{Connection, Database, Postgres, Source};
use crate::security;

fn children(spec: Value) -> Children {
    build(&validated(spec), &material(), &operator())
}

fn yaml(objects: &[(&str, Value)]) -> String {
    objects
        .iter()
        .map(|(name, object)| format!("# {name}\n{}", serde_yaml::to_string(object).unwrap()))
        .collect::<Vec<_>>()
        .join("---\n")
}

fn value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap()
}

/// Returns the objects that are there, each with the name of its field.
fn existing<'a>(objects: impl IntoIterator<Item = (&'a str, Value)>) -> Vec<(&'a str, Value)> {
    objects
        .into_iter()
        .filter(|(_, object)| !object.is_null())
        .collect()
}

/// Returns every child, with its field's name. Taken apart without `..`: a new one cannot be left out.
fn all(children: Children) -> Vec<(&'static str, Value)> {
    let Children {
        operand_binding,
        service_account,
        auth_delegator,
        auth_reader,
        cluster_reader,
        config_reader,
        config_reader_binding,
        ca,
        serving_cert,
        network_policies,
        config,
        managed,
        cluster,
        embedded,
        connection,
        database_move,
        data,
        service,
        deployment,
        disruption_budget,
        autoscaler,
        dashboard,
        monitored,
        control_api,
        certificate,
        accepted,
        move_name: _,
    } = children;
    let managed = managed.map(managed::all_of).unwrap_or_default();
    let embedded = embedded.map(embedded::all_of).unwrap_or_default();
    let policies = network_policies.iter();
    let policies = policies.map(|policy| ("network_policy", value(policy)));
    let all = vec![
        ("operand_binding", value(&operand_binding)),
        ("service_account", value(&service_account)),
        ("auth_delegator", value(&auth_delegator)),
        ("auth_reader", value(&auth_reader)),
        ("cluster_reader", value(&cluster_reader)),
        ("config_reader", value(&config_reader)),
        ("config_reader_binding", value(&config_reader_binding)),
        ("ca", value(&ca)),
        ("serving_cert", value(&serving_cert)),
        ("config", value(&config)),
        ("cluster", value(&cluster)),
        ("connection", value(&connection)),
        ("database_move", value(&database_move)),
        ("data", value(&data)),
        ("service", value(&service)),
        ("deployment", value(&deployment)),
        ("disruption_budget", value(&disruption_budget)),
        ("autoscaler", value(&autoscaler)),
        ("dashboard", value(&dashboard)),
        ("control_api", value(&control_api)),
        ("certificate", value(&certificate)),
        ("accepted", value(&accepted)),
    ];
    let all = all
        .into_iter()
        .chain(managed)
        .chain(embedded)
        .chain(policies.collect::<Vec<_>>())
        .chain(
            monitored
                .iter()
                .map(|own| (own.kind.name(), value(&own.object))),
        );
    existing(all)
}

#[test]
fn children_of_the_smallest_specification() {
    let apis = json!([{"group": "b.example", "owner": "Server"},
        {"group": "a.example", "owner": "CRD"}]);
    insta::assert_snapshot!(yaml(&all(children(json!({"apis": apis})))));
}

/// It is read from the server until its last report is in etcd again.
#[test]
fn a_group_that_is_named_no_more_is_served_until_it_is_back() {
    let apis = json!([{"group": "b.example", "owner": "Server"}]);
    let mut spec = validated(json!({"apis": apis}));
    spec.dropped = ["a.example".to_owned()].into();
    let config = build(&spec, &material(), &operator()).config;
    assert_eq!(config.data.unwrap()["groups"], "a.example,b.example");
}

/// While the reports are moved, the pod stays the one that it was, to the byte, also where the
/// specification wants another: nothing is started anew. What it is told lies beside it.
#[test]
fn a_move_changes_nothing_about_the_pod() {
    let before = validated(json!({"apis": []}));
    let mut moving = validated(
        json!({"apis": [], "database": {"mode": "Managed", "backup": {}},
        "server": {"replicas": 3, "logging": {"format": "Text"}}}),
    );
    let pod = build(&before, &material(), &operator()).deployment;
    let Database::Embedded(storage) = &before.database else {
        panic!("{:?}", before.database)
    };
    moving.moving = Some(Moving {
        template: pod.spec.clone().map(|spec| spec.template),
        storage: storage.clone(),
        secret: Some([("host".to_owned(), b"h".to_vec())].into()),
        told: None,
        waits_for: None,
    });
    let moving = moving.reconciled_with(Known::default()).unwrap();
    let built = build(&moving, &material(), &operator());
    assert_eq!(value(&built.deployment), value(&pod));
    assert!(built.disruption_budget.is_none() && built.data.is_none());
    // A pod that cannot stay becomes what is wanted, with the reports in it still.
    let mut other = moving.clone();
    other.moving.as_mut().unwrap().template = None;
    let other = value(&build(&other, &material(), &operator()).deployment);
    let args = other["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
    assert!(
        args.contains("--log-format=text") && args.contains("--database="),
        "{args}"
    );
    // There is nothing to keep in the new database yet.
    let suspended = |built: &Children| {
        let schedule = built.managed.as_ref().and_then(|own| own.backup.as_ref());
        value(&schedule)["spec"]["suspend"].clone()
    };
    assert_eq!(suspended(&built), true);
    let mut moved = moving.clone();
    moved.moving = None;
    let moved = build(&moved, &material(), &operator());
    assert_eq!(suspended(&moved), false);
    let secret = built.database_move.unwrap();
    assert_eq!(
        secret.metadata.name.as_deref(),
        Some("simple-database-move")
    );
    assert_eq!(secret.data.unwrap()["host"].0, b"h");
}

#[test]
fn children_of_a_specification_that_says_everything() {
    let spec = json!({
        "database": {"embedded": {"storage": {"size": "3Gi", "storageClassName": "fast"}}},
        "server": {
            "resources": {"limits": {"memory": "2Gi"}},
            "nodeSelector": {"zone": "a"},
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "priorityClassName": "high",
            "logging": {"level": "Debug"},
        },
        "images": {"registry": "mirror.example", "server": {"tag": "9", "pullPolicy": "Always"},
            "pullSecrets": [{"name": "pull"}]},
    });
    let children = children(spec);
    let objects = [
        ("data", value(&children.data)),
        ("deployment", value(&children.deployment)),
    ];
    insta::assert_snapshot!(yaml(&objects));
}

/// Returns a server on a database that somebody else runs, wherever its parameters are.
fn on_postgres(spec: Value, replicas: i32) -> Validated {
    let connection = Connection {
        parameters: [
            ("host", "db.example".to_owned()),
            ("sslmode", "verify-full".to_owned()),
        ]
        .into(),
        sources: vec![Source::Secret {
            name: "credentials".to_owned(),
            items: vec![
                ("user".to_owned(), "username"),
                ("pass".to_owned(), "password"),
            ],
            optional: false,
        }],
    };
    let least = Some(IntOrString::Int(1));
    Validated {
        database: Database::Postgres(Box::new(Postgres {
            mode: DatabaseMode::External,
            cluster_identity: "uid-of-kube-system".to_owned(),
            cluster_name: Some("Production, west".to_owned()),
            max_connections: 16,
            connection,
            managed: None,
        })),
        scale: Scale {
            replicas: Replicas::Fixed(replicas),
            present: None,
            disruption_budget: (replicas > 1).then_some((least, None)),
            spread: None,
        },
        ..validated(spec)
    }
}

#[test]
fn children_on_a_database_that_servers_share() {
    let children = build(&on_postgres(json!({}), 2), &material(), &operator());
    assert!(children.data.is_none(), "there is no volume of ours");
    let objects = [
        ("connection", value(&children.connection)),
        ("deployment", value(&children.deployment)),
        ("disruption_budget", value(&children.disruption_budget)),
    ];
    insta::assert_snapshot!(yaml(&objects));
}

#[test]
fn an_autoscaler_owns_the_number_of_pods() {
    let mut spec = on_postgres(json!({}), 2);
    spec.scale.replicas = Replicas::Auto(Autoscaling {
        min: 2,
        max: 5,
        metrics: Vec::new(),
    });
    let children = build(&spec, &material(), &operator());
    assert_eq!(children.deployment.spec.unwrap().replicas, None);
    insta::assert_snapshot!(yaml(&[("autoscaler", value(&children.autoscaler))]));
}

#[test]
fn an_autoscaler_takes_over_from_the_present_number_of_pods() {
    let mut spec = on_postgres(json!({}), 2);
    spec.scale.replicas = Replicas::Auto(Autoscaling {
        min: 2,
        max: 5,
        metrics: Vec::new(),
    });
    for (present, expected) in [(4, 4), (9, 5), (0, 2)] {
        spec.scale.present = Some(present);
        let children = build(&spec, &material(), &operator());
        let replicas = children.deployment.spec.unwrap().replicas;
        assert_eq!(replicas, Some(expected), "{present}");
    }
}

#[test]
fn the_own_spread_wins() {
    let own = json!([{"maxSkew": 3, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}]);
    let mut spec = on_postgres(json!({"server": {"topologySpreadConstraints": own}}), 2);
    spec.scale.spread = validated(json!({"server": {"topologySpreadConstraints": own}}))
        .scale
        .spread;
    let pod = pod(build(&spec, &material(), &operator()));
    assert_eq!(value(&pod.topology_spread_constraints), own);
}

fn pod(children: Children) -> PodSpec {
    children.deployment.spec.unwrap().template.spec.unwrap()
}

#[test]
fn the_pods_pass_the_restricted_standard() {
    let shared = pod(build(&on_postgres(json!({}), 2), &material(), &operator()));
    assert_eq!(security::violations(&shared), Vec::<String>::new());
    for spec in [
        json!({}),
        json!({"database": {"embedded": {"ephemeral": "EmptyDir"}}}),
    ] {
        let pod = children(spec)
            .deployment
            .spec
            .unwrap()
            .template
            .spec
            .unwrap();
        assert_eq!(security::violations(&pod), Vec::<String>::new());
    }
}

#[test]
fn everything_goes_with_its_owner_but_the_data() {
    for (name, object) in all(children(json!({"networkPolicy": {"enabled": true},
        "monitoring": {"serviceMonitor": true, "prometheusRule": true, "grafanaDashboard": true}})))
    {
        let owners = &object["metadata"]["ownerReferences"];
        if name == "data" {
            assert!(owners.is_null(), "the volume outlives the ReportsServer");
        } else {
            assert_eq!(owners[0]["uid"], "uid-1", "{name}");
        }
        assert_eq!(
            object["metadata"]["labels"]["reports-server.io/name"], "simple",
            "{name}"
        );
    }
}

#[test]
fn data_goes_with_its_owner_only_when_that_is_confirmed() {
    let mut object = crate::controller::fixtures::object(json!({
        "deletionPolicy": {"data": "Delete"},
    }));
    let read = crate::controller::fixtures::read();
    let owners = |object: &crds::v1alpha1::ReportsServer| {
        let spec = crate::controller::validate::specification(object, &read).unwrap();
        let data = build(&spec, &material(), &operator()).data.unwrap();
        data.metadata
            .owner_references
            .map_or(0, |owners| owners.len())
    };
    assert_eq!(owners(&object), 0);
    let confirm = |name: &str| {
        Some(
            [(
                "reports-server.io/confirm-data-deletion".to_owned(),
                name.to_owned(),
            )]
            .into(),
        )
    };
    object.metadata.annotations = confirm("another");
    assert_eq!(owners(&object), 0);
    object.metadata.annotations = confirm("simple");
    assert_eq!(owners(&object), 1);
}

#[test]
fn an_ephemeral_database_has_no_claim() {
    let children = children(json!({"database": {"embedded": {"ephemeral": "EmptyDir"}}}));
    assert!(children.data.is_none());
    let pod = children.deployment.spec.unwrap().template.spec.unwrap();
    let volume = pod
        .volumes
        .unwrap()
        .into_iter()
        .find(|volume| volume.name == "data")
        .unwrap();
    assert!(volume.empty_dir.is_some() && volume.persistent_volume_claim.is_none());
}

#[test]
fn the_selector_matches_the_pods_and_the_service_finds_them() {
    let children = children(json!({}));
    let deployment = children.deployment.spec.unwrap();
    let labels = deployment.template.metadata.unwrap().labels.unwrap();
    let service = children.service.spec.unwrap();
    for selector in [
        deployment.selector.match_labels.unwrap(),
        service.selector.unwrap(),
    ] {
        assert!(!selector.is_empty());
        for (key, value) in selector {
            assert_eq!(labels.get(&key), Some(&value));
        }
    }
    let container = &deployment.template.spec.unwrap().containers[0];
    let ports = container.ports.as_ref().unwrap();
    let target = service.ports.unwrap()[0].target_port.clone().unwrap();
    assert_eq!(value(&target), value(&ports[0].name));
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let render = || {
        yaml(&all(children(
            json!({"apis": [{"group": "a.b", "owner": "Server"}]}),
        )))
    };
    assert_eq!(render(), render());
}

#[test]
fn cert_manager_is_asked_for_the_servers_certificate_where_it_is_there() {
    let wanted = json!({"tls": {"mode": "CertManager",
        "certManager": {"issuerRef": {"name": "ca"}}}});
    let mut spec = validated(wanted);
    assert!(build(&spec, &material(), &operator()).certificate.is_none());
    spec.certificate = spec.origin.plan().cloned();
    let certificate = value(&build(&spec, &material(), &operator()).certificate);
    let metadata = &certificate["metadata"];
    assert_eq!(metadata["name"], "simple-server");
    assert_eq!(metadata["namespace"], "target");
    assert_eq!(metadata["ownerReferences"][0]["uid"], "uid-1");
    assert_eq!(metadata["labels"]["reports-server.io/name"], "simple");
    let spec = &certificate["spec"];
    assert_eq!(spec["secretName"], "simple-issued-cert");
    let names = json!([
        "simple-server.target.svc",
        "simple-server.target.svc.cluster.local"
    ]);
    assert_eq!(spec["dnsNames"], names);
}
