//! Network policies, tried with every connection between everything that there is: what is allowed
//! is what `docs/network.md` says, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use crds::v1alpha1::spec::DatabaseMode;
use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rstest::rstest;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::{all, build, material, on_postgres, operator, validated, value, yaml};
use crate::controller::fixtures::between;
use crate::controller::validate::{Between, Stage, Validated};
use crate::database::between::Egress;
use crate::database::managed::Known;
use crate::database::place::Database;
use crate::names::Names;

const TARGET: &str = "target";
/// Ports that are tried at every peer; the last is nobody's.
const PORTS: [i32; 11] = [53, 80, 443, 4318, 5353, 5432, 6432, 6443, 8080, 8443, 9999];
/// The words of the docs for an address that no policy names.
const ANYWHERE: &str = "any address";

/// Something that connects or is connected to.
struct Peer {
    name: &'static str,
    /// None for what is no pod.
    pod: Option<(String, BTreeMap<String, String>)>,
    address: Ipv4Addr,
}

fn pod(
    name: &'static str,
    namespace: &str,
    labels: impl IntoIterator<Item = (String, String)>,
) -> Peer {
    Peer {
        name,
        pod: Some((namespace.to_owned(), labels.into_iter().collect())),
        address: Ipv4Addr::new(10, 244, 0, 1),
    }
}

fn machine(name: &'static str, address: [u8; 4]) -> Peer {
    Peer {
        name,
        pod: None,
        address: Ipv4Addr::from(address),
    }
}

/// Returns the labels of the operator's pods as they are installed.
fn operator_labels() -> BTreeMap<String, String> {
    let text = crate::manifests::install().unwrap();
    let objects = serde_yaml::Deserializer::from_str(&text);
    let objects = objects.map(|document| Value::deserialize(document).unwrap());
    let mut deployments = objects.filter(|object| object["kind"] == "Deployment");
    let labels = deployments.next().unwrap()["spec"]["template"]["metadata"]["labels"].clone();
    serde_json::from_value(labels).unwrap()
}

fn peers() -> Vec<Peer> {
    let names = Names::new("simple");
    let others = Names::new("another");
    vec![
        machine("kube-apiserver", [10, 0, 0, 1]),
        machine("external database", [192, 0, 2, 7]),
        machine(ANYWHERE, [203, 0, 113, 1]),
        pod("server", TARGET, names.labels()),
        pod("managed database", TARGET, names.postgres_labels()),
        pod("backup", TARGET, names.backup_labels()),
        pod("restore", TARGET, names.recovery_labels()),
        pod("upgrade", TARGET, names.upgrade_labels()),
        pod(
            "CloudNativePG",
            TARGET,
            [("cnpg.io/cluster".to_owned(), "given".to_owned())],
        ),
        pod("operator", "operator-ns", operator_labels()),
        pod("client namespace", "monitoring", []),
        pod("neighbour", TARGET, []),
        pod("server of another", TARGET, others.labels()),
        pod("stranger", "elsewhere", names.labels()),
    ]
}

fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.iter().flatten();
    let mut equal = equal.map(|(key, value)| labels.get(key) == Some(value));
    let mut within = selector.match_expressions.iter().flatten();
    equal.all(|is| is)
        && within.all(|required| {
            assert_eq!(required.operator, "In");
            let value = labels.get(&required.key);
            let mut values = required.values.iter().flatten();
            values.any(|wanted| Some(wanted) == value)
        })
}

fn contains(cidr: &str, address: Ipv4Addr) -> bool {
    let (network, bits) = cidr.split_once('/').unwrap();
    let network: Ipv4Addr = network.parse().unwrap();
    let mask = u32::MAX.checked_shl(32 - bits.parse::<u32>().unwrap());
    let mask = mask.unwrap_or(0);
    u32::from(network) & mask == u32::from(address) & mask
}

fn is_meant(peer: &Peer, selector: &NetworkPolicyPeer) -> bool {
    if let Some(block) = &selector.ip_block {
        return peer.pod.is_none() && contains(&block.cidr, peer.address);
    }
    let Some((namespace, labels)) = &peer.pod else {
        return false;
    };
    let in_namespace = match &selector.namespace_selector {
        None => namespace == TARGET,
        Some(selector) => {
            let own = [("kubernetes.io/metadata.name".to_owned(), namespace.clone())];
            selects(selector, &own.into())
        }
    };
    let pods = selector.pod_selector.as_ref();
    in_namespace && pods.is_none_or(|selector| selects(selector, labels))
}

fn passes(
    peers: Option<&Vec<NetworkPolicyPeer>>,
    ports: Option<&Vec<NetworkPolicyPort>>,
    peer: &Peer,
    port: i32,
) -> bool {
    let ports = ports.unwrap();
    let meant = peers.is_none_or(|peers| peers.iter().any(|selector| is_meant(peer, selector)));
    meant
        && ports
            .iter()
            .any(|own| own.port == Some(IntOrString::Int(port)))
}

/// Returns whether the policies let a connection through, as `NetworkPolicy` defines it.
fn is_allowed(policies: &[NetworkPolicy], from: &Peer, to: &Peer, port: i32) -> bool {
    let of = |peer: &Peer| {
        let specs = policies.iter().map(|policy| policy.spec.clone().unwrap());
        let concerns = |selector: &Option<LabelSelector>| {
            let selector = selector.as_ref().unwrap();
            let pod = peer.pod.as_ref();
            pod.is_some_and(|(namespace, labels)| namespace == TARGET && selects(selector, labels))
        };
        let specs = specs.filter(|spec| concerns(&spec.pod_selector));
        specs.collect::<Vec<_>>()
    };
    let (out, into) = (of(from), of(to));
    let leaves = out.iter().any(|spec| {
        let mut rules = spec.egress.iter().flatten();
        rules.any(|rule| passes(rule.to.as_ref(), rule.ports.as_ref(), to, port))
    });
    let enters = into.iter().any(|spec| {
        let mut rules = spec.ingress.iter().flatten();
        rules.any(|rule| passes(rule.from.as_ref(), rule.ports.as_ref(), from, port))
    });
    (out.is_empty() || leaves) && (into.is_empty() || enters)
}

/// Returns every connection from or to what the policies are for: from, to and port. Where any
/// address will do, nobody else is named.
fn connections(spec: &Validated) -> BTreeSet<[String; 3]> {
    let policies = build(spec, &material(), &operator()).network_policies;
    let peers = peers();
    let ours = |peer: &Peer| {
        let pod = peer.pod.as_ref();
        pod.is_some_and(|(namespace, labels)| {
            let mut selectors = policies.iter().map(|policy| {
                let selector = policy.spec.as_ref().unwrap().pod_selector.clone();
                selector.unwrap()
            });
            namespace == TARGET && selectors.any(|selector| selects(&selector, labels))
        })
    };
    let mut found = BTreeSet::new();
    for port in PORTS {
        for from in &peers {
            let reached = |to: &&Peer| {
                (ours(from) || ours(to))
                    && from.name != to.name
                    && is_allowed(&policies, from, to, port)
            };
            let reached: Vec<&Peer> = peers.iter().filter(reached).collect();
            let anywhere = ours(from) && reached.iter().any(|to| to.name == ANYWHERE);
            for to in reached {
                if !anywhere || to.name == ANYWHERE {
                    found.insert([from.name.to_owned(), to.name.to_owned(), port.to_string()]);
                }
            }
        }
    }
    found
}

fn policy() -> Value {
    json!({"enabled": true, "apiServerCIDRs": ["10.0.0.0/24"],
        "clientNamespaces": ["monitoring"]})
}

fn managed(mut spec: Value) -> Validated {
    spec["networkPolicy"] = policy();
    spec["networkPolicy"]["additionalPorts"] = json!([6432]);
    let known = Known {
        password: "secret".into(),
        ..Known::default()
    };
    validated(spec).reconciled_with(known).unwrap()
}

fn in_a_bucket() -> Validated {
    let bucket = json!({"bucket": "reports", "endpoint": "http://minio.example",
        "credentialsSecretRef": {"name": "s3"}});
    managed(json!({"database": {"mode": "Managed", "backup": {"destination": {"s3": bucket}}}}))
}

fn embedded() -> Validated {
    let bucket = json!({"bucket": "reports", "endpoint": "http://minio.example",
        "credentialsSecretRef": {"name": "s3"}});
    let mut policy = policy();
    policy["additionalPorts"] = json!([6432]);
    validated(json!({"networkPolicy": policy,
        "database": {"backup": {"destination": {"s3": bucket}}}}))
}

fn external() -> Validated {
    let mut spec = on_postgres(json!({"networkPolicy": policy()}), 2);
    let network = spec.network.as_mut().unwrap();
    network.database_cidrs = vec!["192.0.2.0/24".to_owned()];
    network.additional_ports = vec![6432];
    spec
}

fn cloud_native_pg() -> Validated {
    let database = json!({"mode": "CloudNativePG",
        "cloudNativePG": {"clusterRef": {"name": "given"}}});
    let mut spec = on_postgres(json!({"networkPolicy": policy(), "database": database}), 2);
    if let Database::Postgres(postgres) = &mut spec.database {
        postgres.mode = DatabaseMode::CloudNativePg;
    }
    spec
}

fn traced() -> Validated {
    let mut network = policy();
    network["additionalPorts"] = json!([6432]);
    let collector = json!({"endpoint": "http://otel-collector.monitoring:4318"});
    validated(json!({"networkPolicy": network, "monitoring": {"tracing": collector}}))
}

/// Returns the rows of the table in the docs: from, to and one port each.
fn documented() -> BTreeSet<[String; 3]> {
    let text = include_str!("../../../../../docs/network.md");
    let table = text.split("\n## Connections\n").nth(1).unwrap();
    let table = table.split("\n## ").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| "));
    // The head; the line below it begins with another character.
    let rows = rows.skip(1).flat_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let (from, to) = (cells[0].to_owned(), cells[1].to_owned());
        let ports = cells[2].split(", ").map(str::to_owned);
        ports
            .map(move |port| [from.clone(), to.clone(), port])
            .collect::<Vec<_>>()
    });
    rows.collect()
}

#[test]
fn what_the_docs_name_is_allowed_and_nothing_else() {
    let mut allowed = connections(&in_a_bucket());
    allowed.extend(connections(&embedded()));
    allowed.extend(connections(&external()));
    allowed.extend(connections(&cloud_native_pg()));
    allowed.extend(connections(&traced()));
    let documented = documented();
    let missing: Vec<_> = documented.difference(&allowed).collect();
    let more: Vec<_> = allowed.difference(&documented).collect();
    assert!(
        missing.is_empty() && more.is_empty(),
        "documented, not allowed: {missing:#?}; allowed, not documented: {more:#?}"
    );
}

fn reaches(spec: &Validated, from: &str, to: &str) -> Vec<String> {
    let found = connections(spec).into_iter();
    let found = found.filter(|[own, other, _]| own == from && other == to);
    found.map(|[_, _, port]| port).collect()
}

#[test]
fn a_server_without_traces_needs_no_collector() {
    let spec = validated(json!({"networkPolicy": policy()}));
    assert_eq!(reaches(&spec, "server", ANYWHERE), ["53", "5353"]);
    assert_eq!(
        reaches(&traced(), "server", ANYWHERE),
        ["4318", "53", "5353", "6432"]
    );
}

#[test]
fn both_databases_are_reached_while_reports_move() {
    let mut spec = external();
    assert_eq!(reaches(&spec, "server", ANYWHERE), ["53", "5353"]);
    spec.between = Some(Between {
        egress: Some(Egress {
            cidrs: vec!["203.0.113.0/24".to_owned()],
            ports: BTreeSet::from([80]),
        }),
        ..between(Stage::Moving)
    });
    assert_eq!(reaches(&spec, "server", ANYWHERE), ["53", "5353", "80"]);
    let both = reaches(&spec, "server", "external database");
    assert_eq!(both, ["5432", "6432"]);
}

/// The addresses from which kube-apiservers call differ from cluster to cluster: a wrong guess
/// would take the API away.
#[test]
fn anybody_may_call_the_server_where_no_networks_are_named() {
    let spec = validated(json!({"networkPolicy": {"enabled": true}}));
    for from in ["kube-apiserver", "stranger", ANYWHERE] {
        assert_eq!(reaches(&spec, from, "server"), ["8443"], "{from}");
    }
    assert_eq!(
        reaches(&spec, "server", ANYWHERE),
        ["443", "53", "5353", "6443"]
    );
}

#[test]
fn an_embedded_database_needs_no_connection() {
    let policies = build(
        &validated(json!({"networkPolicy": policy()})),
        &material(),
        &operator(),
    )
    .network_policies;
    let [server] = policies.as_slice() else {
        panic!("{policies:#?}")
    };
    let egress = server.spec.as_ref().unwrap().egress.as_ref().unwrap();
    assert_eq!(egress.len(), 2, "DNS and kube-apiserver: {egress:#?}");
}

/// A Job that restores a backup or upgrades a database may not reach the server.
#[test]
fn only_a_backup_has_an_embedded_database_sent() {
    assert_eq!(reaches(&embedded(), "backup", "server"), ["8443"]);
    for from in ["restore", "upgrade", "neighbour", "server of another"] {
        assert_eq!(reaches(&embedded(), from, "server"), [""; 0], "{from}");
    }
    let children = build(&embedded(), &material(), &operator());
    let kept = children.kept().network_policies;
    assert_eq!(kept, ["simple-server", "simple-backup"]);
}

#[rstest]
#[case(json!({"destination": {"pvc": {}}}), &["53", "5353"])]
#[case(json!({"destination": {"s3": {"bucket": "reports", "credentialsSecretRef": {"name": "s"}}}}),
    &["443", "53", "5353", "6432"])]
fn backups_leave_the_cluster_only_for_a_bucket(#[case] backup: Value, #[case] ports: &[&str]) {
    let mut database = json!({"mode": "Managed"});
    database["backup"] = backup;
    let spec = managed(json!({"database": database}));
    assert_eq!(reaches(&spec, "backup", ANYWHERE), ports);
    assert_eq!(reaches(&spec, "managed database", ANYWHERE), [""; 0]);
}

/// The labels by which policies find pods are those that the pods get.
#[test]
fn every_pod_has_a_policy() {
    let children = build(&in_a_bucket(), &material(), &operator());
    let policies = children.network_policies.clone();
    let managed = children.managed.unwrap();
    let templates = [
        value(&children.deployment)["spec"]["template"].clone(),
        value(&managed.stateful_set)["spec"]["template"].clone(),
        value(&managed.backup)["spec"]["jobTemplate"]["spec"]["template"].clone(),
    ];
    for template in templates {
        let labels = serde_json::from_value(template["metadata"]["labels"].clone()).unwrap();
        let selector = |policy: &&NetworkPolicy| {
            let spec = policy.spec.as_ref().unwrap();
            selects(spec.pod_selector.as_ref().unwrap(), &labels)
        };
        assert_eq!(policies.iter().filter(selector).count(), 1, "{labels:?}");
    }
}

#[test]
fn nothing_is_limited_unless_that_is_asked_for() {
    for policy in [json!(null), json!({"enabled": false})] {
        let children = build(
            &validated(json!({"networkPolicy": policy})),
            &material(),
            &operator(),
        );
        assert_eq!(children.network_policies, []);
        assert_eq!(children.kept().network_policies, [""; 0]);
    }
    let children = build(&in_a_bucket(), &material(), &operator());
    assert_eq!(
        children.kept().network_policies,
        ["simple-server", "simple-postgres", "simple-backup"]
    );
}

#[test]
fn policies_of_a_managed_database() {
    let policies = all(build(&in_a_bucket(), &material(), &operator()));
    let policies: Vec<_> = policies
        .into_iter()
        .filter(|(name, _)| *name == "network_policy")
        .collect();
    insta::assert_snapshot!(yaml(&policies));
}
