//! Network policies: who may connect to the server, to a managed database and to the Jobs for
//! backups and upgrades, and what they may connect to. `docs/network.md` has the table.

use std::collections::BTreeSet;

use crds::names::{LABEL_APP_COMPONENT, LABEL_APP_NAME};
use crds::v1alpha1::spec::{DatabaseMode, S3Destination};
use http::Uri;
use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
    NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, ObjectMeta,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Validated;
use super::metadata::namespaced;
use super::rbac::ServiceAccountRef;
use crate::controller::validate::Network;
use crate::database::between::Egress;
use crate::database::cloudnativepg;
use crate::database::embedded::Embedded;
use crate::database::managed::{self, Backup, Destination, Managed, Recovery, Source};
use crate::names::{CONTAINER_PORT, DNS_PORTS, OPERATOR};

/// Label with a namespace's name, which every namespace has.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Components that connect to a managed database.
const DATABASE_CLIENTS: [&str; 4] = ["backup", "recovery", "server", "upgrade"];
/// Components that have the server send a copy of its database.
const COPIERS: [&str; 1] = ["backup"];
/// Components that are Jobs.
const JOBS: [&str; 3] = ["backup", "recovery", "upgrade"];

/// Returns the policies; none where they are not asked for.
pub(super) fn policies(spec: &Validated, operator: &ServiceAccountRef) -> Vec<NetworkPolicy> {
    let Some(network) = &spec.network else {
        return Vec::new();
    };
    let mut policies = vec![server(spec, network)];
    if let Some(managed) = spec.managed() {
        policies.push(database(spec, operator));
        policies.push(jobs(spec, managed, network));
    }
    let embedded = spec.embedded.as_ref();
    if let Some(embedded) = embedded.filter(|embedded| embedded.has_jobs()) {
        policies.push(embedded_jobs(spec, embedded, network));
    }
    policies
}

fn server(spec: &Validated, network: &Network) -> NetworkPolicy {
    let egress = [dns(), api_servers(network)]
        .into_iter()
        .chain(to_database(spec, network))
        .chain(to_other_database(spec))
        .chain(to_collector(spec, network));
    NetworkPolicy {
        metadata: namespaced(spec, spec.names.server()),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(labelled(spec.names.selector())),
            ingress: Some(vec![NetworkPolicyIngressRule {
                from: callers(spec, network),
                ports: Some(vec![tcp(CONTAINER_PORT)]),
            }]),
            egress: Some(egress.collect()),
            policy_types: Some(both()),
        }),
    }
}

/// Returns who may call the server; nothing stands for everybody.
fn callers(spec: &Validated, network: &Network) -> Option<Vec<NetworkPolicyPeer>> {
    let mut peers = addresses(&network.api_server_cidrs)?;
    let embedded = spec.embedded.as_ref();
    if embedded.is_some_and(|embedded| embedded.backup.is_some()) {
        peers.push(beside(components(spec, &COPIERS)));
    }
    peers.extend(
        network
            .client_namespaces
            .iter()
            .map(|name| in_namespace(name)),
    );
    Some(peers)
}

/// Returns the rule to the kube-apiservers.
fn api_servers(network: &Network) -> NetworkPolicyEgressRule {
    NetworkPolicyEgressRule {
        to: addresses(&network.api_server_cidrs),
        ports: Some(
            network
                .api_server_ports
                .iter()
                .map(|port| tcp(*port))
                .collect(),
        ),
    }
}

/// Returns the rule to the database; none where it is in the server's own pod.
fn to_database(spec: &Validated, network: &Network) -> Option<NetworkPolicyEgressRule> {
    let (to, ports) = match spec.database.postgres()?.mode {
        DatabaseMode::Embedded => return None,
        DatabaseMode::Managed => {
            let pods = beside(labelled(spec.names.postgres_selector()));
            (Some(vec![pods]), BTreeSet::from([managed::PORT]))
        }
        DatabaseMode::CloudNativePg => {
            let pods = beside(labelled(cloudnativepg::pod_labels(&cluster_name(spec))));
            (Some(vec![pods]), BTreeSet::from([managed::PORT]))
        }
        DatabaseMode::External => (
            addresses(&network.database_cidrs),
            external_ports(spec, network),
        ),
    };
    Some(NetworkPolicyEgressRule {
        to,
        ports: Some(ports.into_iter().map(tcp).collect()),
    })
}

/// Returns the rule to the database from which, or to which, the reports move.
fn to_other_database(spec: &Validated) -> Option<NetworkPolicyEgressRule> {
    let Egress { cidrs, ports } = spec.between.as_ref()?.egress.as_ref()?;
    Some(NetworkPolicyEgressRule {
        to: addresses(cidrs),
        ports: Some(ports.iter().copied().map(tcp).collect()),
    })
}

/// Returns the rule to the collector of traces, which may be anywhere; none without one.
fn to_collector(spec: &Validated, network: &Network) -> Option<NetworkPolicyEgressRule> {
    let collector = &spec.tracing.as_ref()?.endpoint;
    let mut ports = BTreeSet::from([i32::from(collector.port())]);
    ports.extend(&network.additional_ports);
    Some(NetworkPolicyEgressRule {
        to: None,
        ports: Some(ports.into_iter().map(tcp).collect()),
    })
}

/// Returns the name of the `Cluster` of `CloudNativePG`.
fn cluster_name(spec: &Validated) -> String {
    let database = spec.source.database.clone().unwrap_or_default();
    let wanted = database.cloud_native_pg.unwrap_or_default();
    cloudnativepg::Plan::of(&wanted, spec.names.postgres_cluster()).name
}

/// Returns the ports of the connection, and those of pods behind it; where it cannot be read yet,
/// PostgreSQL's own.
fn external_ports(spec: &Validated, network: &Network) -> BTreeSet<i32> {
    let target = spec
        .postgres
        .as_ref()
        .and_then(|reached| reached.target.as_ref());
    let hosts = target
        .into_iter()
        .flat_map(|target| target.parameters.hosts.iter());
    let mut ports: BTreeSet<i32> = hosts.map(|host| i32::from(host.port)).collect();
    if ports.is_empty() {
        ports.insert(managed::PORT);
    }
    ports.extend(&network.additional_ports);
    ports
}

/// Returns the policy of a managed database. Nothing that PostgreSQL does needs a connection from
/// its pod.
fn database(spec: &Validated, operator: &ServiceAccountRef) -> NetworkPolicy {
    let examiner = NetworkPolicyPeer {
        pod_selector: Some(labelled([(LABEL_APP_NAME.to_owned(), OPERATOR.to_owned())])),
        ..in_namespace(&operator.namespace)
    };
    NetworkPolicy {
        metadata: ObjectMeta {
            labels: Some(spec.names.postgres_labels()),
            ..namespaced(spec, spec.names.postgres())
        },
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(labelled(spec.names.postgres_selector())),
            ingress: Some(vec![NetworkPolicyIngressRule {
                from: Some(vec![beside(components(spec, &DATABASE_CLIENTS)), examiner]),
                ports: Some(vec![tcp(managed::PORT)]),
            }]),
            egress: None,
            policy_types: Some(both()),
        }),
    }
}

fn jobs(spec: &Validated, managed: &Managed, network: &Network) -> NetworkPolicy {
    let database = NetworkPolicyEgressRule {
        to: Some(vec![beside(labelled(spec.names.postgres_selector()))]),
        ports: Some(vec![tcp(managed::PORT)]),
    };
    let buckets = to_buckets(managed.backup.as_ref(), managed.recovery(), network);
    let egress = [dns(), database].into_iter().chain(buckets);
    of_jobs(spec, egress.collect())
}

/// Returns the policy of the Jobs of an embedded database. One that restores it needs nothing but the
/// place of the backup.
fn embedded_jobs(spec: &Validated, embedded: &Embedded, network: &Network) -> NetworkPolicy {
    let server = embedded.backup.as_ref().map(|_| NetworkPolicyEgressRule {
        to: Some(vec![beside(labelled(spec.names.selector()))]),
        ports: Some(vec![tcp(CONTAINER_PORT)]),
    });
    let buckets = to_buckets(embedded.backup.as_ref(), embedded.recovery(), network);
    let egress = [dns()].into_iter().chain(server).chain(buckets);
    of_jobs(spec, egress.collect())
}

fn of_jobs(spec: &Validated, egress: Vec<NetworkPolicyEgressRule>) -> NetworkPolicy {
    NetworkPolicy {
        metadata: ObjectMeta {
            labels: Some(spec.names.backup_labels()),
            ..namespaced(spec, spec.names.backup())
        },
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(components(spec, &JOBS)),
            ingress: None,
            egress: Some(egress),
            policy_types: Some(both()),
        }),
    }
}

/// Returns the rule to the buckets of backups; none where they go to a volume.
fn to_buckets(
    backup: Option<&Backup>,
    recovery: Option<&Recovery>,
    network: &Network,
) -> Option<NetworkPolicyEgressRule> {
    let destination = backup.map(|backup| &backup.destination);
    let destination = destination.and_then(|destination| match destination {
        Destination::Bucket(bucket) => Some(bucket),
        Destination::Volume { .. } => None,
    });
    let source = recovery.map(|recovery| &recovery.source);
    let source = source.and_then(|source| match source {
        Source::Bucket(bucket) => Some(bucket),
        Source::Claim(_) => None,
    });
    let buckets = destination.into_iter().chain(source);
    let mut ports: BTreeSet<i32> = buckets.map(bucket_port).collect();
    if ports.is_empty() {
        return None;
    }
    ports.extend(&network.additional_ports);
    Some(NetworkPolicyEgressRule {
        to: None,
        ports: Some(ports.into_iter().map(tcp).collect()),
    })
}

/// Returns the port of the service that has a bucket.
fn bucket_port(bucket: &S3Destination) -> i32 {
    let endpoint = bucket.endpoint.as_deref().unwrap_or("https://");
    let default = if endpoint.starts_with("http://") {
        80
    } else {
        443
    };
    let url = endpoint.parse::<Uri>().ok();
    url.and_then(|url| url.port_u16())
        .map_or(default, i32::from)
}

/// Returns the rule to whatever answers for names; where that is differs from cluster to cluster.
fn dns() -> NetworkPolicyEgressRule {
    let port = |(number, protocol): (i32, &str)| NetworkPolicyPort {
        port: Some(IntOrString::Int(number)),
        protocol: Some(protocol.to_owned()),
        ..NetworkPolicyPort::default()
    };
    NetworkPolicyEgressRule {
        to: None,
        ports: Some(DNS_PORTS.map(port).to_vec()),
    }
}

fn tcp(port: i32) -> NetworkPolicyPort {
    NetworkPolicyPort {
        port: Some(IntOrString::Int(port)),
        protocol: Some("TCP".to_owned()),
        ..NetworkPolicyPort::default()
    }
}

/// Returns these networks; nothing, which stands for any address, where there are none.
fn addresses(cidrs: &[String]) -> Option<Vec<NetworkPolicyPeer>> {
    let peer = |cidr: &String| NetworkPolicyPeer {
        ip_block: Some(IPBlock {
            cidr: cidr.clone(),
            ..IPBlock::default()
        }),
        ..NetworkPolicyPeer::default()
    };
    (!cidrs.is_empty()).then(|| cidrs.iter().map(peer).collect())
}

/// Returns the pods of the same namespace that a selector finds.
fn beside(selector: LabelSelector) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        pod_selector: Some(selector),
        ..NetworkPolicyPeer::default()
    }
}

/// Returns every pod of a namespace.
fn in_namespace(name: &str) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        namespace_selector: Some(labelled([(NAMESPACE_NAME.to_owned(), name.to_owned())])),
        ..NetworkPolicyPeer::default()
    }
}

/// Returns the selector of some components of a `ReportsServer`.
fn components(spec: &Validated, components: &[&str]) -> LabelSelector {
    let mut common = spec.names.selector();
    common.remove(LABEL_APP_COMPONENT);
    LabelSelector {
        match_labels: Some(common),
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: LABEL_APP_COMPONENT.to_owned(),
            operator: "In".to_owned(),
            values: Some(components.iter().map(|name| (*name).to_owned()).collect()),
        }]),
    }
}

fn labelled(labels: impl IntoIterator<Item = (String, String)>) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels.into_iter().collect()),
        ..LabelSelector::default()
    }
}

fn both() -> Vec<String> {
    vec!["Ingress".to_owned(), "Egress".to_owned()]
}
