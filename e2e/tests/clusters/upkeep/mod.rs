//! A `ReportsServer` of which groups are switched, under wrong hands: fields that are refused, at
//! admission, by the operator and by the kube-apiserver; a suspended one whose server is taken away;
//! an entry that is removed before its way back has ended. Clients are served all the same, or the
//! conditions say that they are not.

mod account;
mod logging;
mod registration;

use std::time::{Duration, Instant};

use crate::common::{options, say};
use crds::names;
use crds::v1alpha1::{ReportsServer, conditions, reasons};
use e2e::takeover::{Database, GROUPS, NAME, TARGET_NAMESPACE, Takeover, is_ready};
use http::Request;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use testreports::{Input, ReportKind};

const LIMIT: Duration = Duration::from_mins(5);
const REPORTS: usize = 200;
/// Longest time until a condition tells that the server is away.
const TOLD: Duration = Duration::from_secs(15);
/// Longest time until what was deleted is made anew.
const AGAIN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);
/// A time in which the operator asks the control API several times.
const ATTEMPTS: Duration = Duration::from_secs(8);
const KIND: ReportKind = ReportKind::PolicyReport;

struct Ground {
    line: Takeover,
}

impl Ground {
    async fn start() -> Self {
        let mut options = options(Input::detect(), REPORTS);
        options.database = Database::Managed;
        let line = Takeover::prepare(options, say).await.unwrap();
        line.install_operator().await.unwrap();
        Box::pin(a_name_that_is_taken_is_left_alone(&line)).await;
        line.follow_to_ready(LIMIT).await.unwrap();
        let ground = Self { line };
        // A certificate is renewed every half minute, from the next one on.
        let lifetimes = json!({"caValidity": "24h", "certValidity": "9m", "renewBefore": "510s"});
        ground.patch(json!({"tls": {"operator": lifetimes}})).await;
        ground.follow("the lifetimes", is_ready).await;
        let secrets: Api<Secret> = Api::namespaced(ground.line.client.clone(), TARGET_NAMESPACE);
        let soon = Timestamp::now() + SignedDuration::from_mins(15);
        let short = |server: &ReportsServer| expiry(server).is_some_and(|time| time < soon);
        // A reconciliation that is under way writes the old one again.
        while !short(&ground.servers().get(NAME).await.unwrap()) {
            let params = DeleteParams::default();
            let deleted = secrets.delete(&names::serving_cert(NAME), &params).await;
            assert!(deleted.is_ok() || deleted.is_err_and(|e| e.to_string().contains("not found")));
            let soon = ground
                .line
                .follow("another certificate", AGAIN, short)
                .await;
            println!("{soon:?}");
        }
        ground
    }

    fn servers(&self) -> Api<ReportsServer> {
        Api::all(self.line.client.clone())
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.line.client.clone(), TARGET_NAMESPACE)
    }

    async fn patch(&self, spec: Value) {
        self.line.patch_spec(spec).await.unwrap();
    }

    async fn follow(&self, what: &str, wanted: impl Fn(&ReportsServer) -> bool) {
        self.line.follow(what, LIMIT, wanted).await.unwrap();
    }

    /// Reports that a client is shown; none where it is refused.
    async fn shown(&self) -> Option<usize> {
        let request = Request::get(KIND.path(None)).body(Vec::new()).unwrap();
        let list = self.line.client.request::<Value>(request).await.ok()?;
        list["items"].as_array().map(Vec::len)
    }

    /// Waits until the serving certificate has been renewed, and clients are served by it.
    async fn renews(&self, reports: usize) {
        let before = expiry(&self.servers().get(NAME).await.unwrap());
        self.follow("another certificate", |server| expiry(server) > before)
            .await;
        assert_eq!(self.shown().await, Some(reports));
    }
}

/// Returns the time at which the serving certificate ends.
fn expiry(server: &ReportsServer) -> Option<Timestamp> {
    let tls = server.status.as_ref()?.tls.as_ref()?;
    tls.not_after.as_ref().map(|time| time.0)
}

fn condition<'a>(server: &'a ReportsServer, type_: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let conditions = &server.status.as_ref()?.conditions;
    let found = conditions.iter().find(|c| c.type_ == type_)?;
    Some((&found.status, &found.reason, &found.message))
}

fn is_refused(server: &ReportsServer, words: &str) -> bool {
    let observed = server.status.as_ref().and_then(|s| s.observed_generation);
    let told = condition(server, conditions::STALLED);
    observed == server.metadata.generation
        && told.is_some_and(|(is, _, message)| is == "True" && message.contains(words))
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_served_whatever_is_done_to_the_specification() {
    let ground = Box::pin(Ground::start()).await;
    let reports = ground.shown().await.unwrap();
    assert!(reports > 0);
    the_identity_in_force_stays(&ground, reports).await;
    Box::pin(registration::is_put_right(&ground, reports)).await;
    Box::pin(account::is_made_again_with_its_pods(&ground, reports)).await;
    account::is_bound_again(&ground).await;
    a_refused_field_stops_nothing(&ground, reports).await;
    a_place_that_no_node_offers_takes_nothing_away(&ground, reports).await;
    Box::pin(what_nobody_has_allowed_is_not_done(&ground, reports)).await;
    Box::pin(a_namespace_that_is_closed_stops_nothing(&ground, reports)).await;
    what_is_optional_comes_and_goes(&ground, reports).await;
    Box::pin(logging::is_changed_without_other_pods(&ground, reports)).await;
    Box::pin(what_the_kube_apiserver_refuses_changes_nothing(
        &ground, reports,
    ))
    .await;
    Box::pin(a_suspended_server_is_kept_and_looked_at(&ground, reports)).await;
    a_group_that_is_named_no_more_goes_back(&ground, reports).await;
}

/// A Service of kyverno/reports-server, which has the name and the namespace that ours would have.
async fn a_name_that_is_taken_is_left_alone(line: &Takeover) {
    let name = names::server(NAME);
    let namespace = json!({"metadata": {"name": TARGET_NAMESPACE}});
    let namespaces: Api<Namespace> = Api::all(line.client.clone());
    let params = PostParams::default();
    let namespace = serde_json::from_value(namespace).unwrap();
    namespaces.create(&params, &namespace).await.unwrap();
    let services: Api<Service> = Api::namespaced(line.client.clone(), TARGET_NAMESPACE);
    let theirs = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "Helm"}},
        "spec": {"ports": [{"port": 443}], "selector": {"app": "theirs"}},
    }));
    let theirs = services.create(&params, &theirs.unwrap()).await.unwrap();

    line.apply().await.unwrap();
    let refused = |server: &ReportsServer| {
        let stalled = condition(server, conditions::STALLED);
        stalled.is_some_and(|(_, reason, message)| {
            reason == reasons::FOREIGN_OBJECT
                && message.contains(&format!("Service {TARGET_NAMESPACE}/{name}"))
        })
    };
    line.follow("the refusal", LIMIT, refused).await.unwrap();
    let found = services.get(&name).await.unwrap();
    assert_eq!(
        found.metadata.resource_version,
        theirs.metadata.resource_version
    );
    let secrets: Api<Secret> = Api::namespaced(line.client.clone(), TARGET_NAMESPACE);
    let made = secrets.list(&ListParams::default()).await.unwrap();
    assert!(
        made.items.is_empty(),
        "something was applied before: {made:?}"
    );
    services
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
}

async fn the_identity_in_force_stays(ground: &Ground, reports: usize) {
    let id = |id: &str| json!({"clusterIdentity": {"id": id}});
    let server = ground.servers().get(NAME).await.unwrap();
    let in_force = server.status.unwrap().database.unwrap().cluster_identity;
    let refused = ground.line.patch_spec(id("mine")).await.unwrap_err();
    let refused = format!("{refused:?}");
    assert!(
        refused.contains("status.database.clusterIdentity"),
        "{refused}"
    );
    ground.patch(id(&in_force.unwrap())).await;
    assert_eq!(ground.shown().await, Some(reports));
}

async fn a_refused_field_stops_nothing(ground: &Ground, reports: usize) {
    ground
        .patch(json!({"server": {"podTemplate": {"spec": {"noSuchField": true}}}}))
        .await;
    ground
        .follow("the refusal", |server| is_refused(server, "noSuchField"))
        .await;
    ground.renews(reports).await;
    // What clients depend on is put right.
    let services: Api<Service> = Api::namespaced(ground.line.client.clone(), TARGET_NAMESPACE);
    let service = names::server(NAME);
    let params = DeleteParams::default();
    services.delete(&service, &params).await.unwrap();
    let back = async {
        while ground.shown().await != Some(reports) {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(LIMIT, back).await.unwrap();
    ground.patch(json!({"server": {"podTemplate": null}})).await;
    ground.follow("an end of the refusal", is_ready).await;
}

/// Pods that are to reach the node, and to run as an account that belongs to somebody else.
async fn what_nobody_has_allowed_is_not_done(ground: &Ground, reports: usize) {
    let name = names::server(NAME);
    let before = ground.deployments().get(&name).await.unwrap();
    for (asked, words) in [
        (
            json!({"podTemplate": {"spec": {"hostPID": true}}}),
            "spec.server.podTemplate.spec.hostPID",
        ),
        (
            json!({"serviceAccount": {"name": "default"}}),
            "annotate serviceaccount default",
        ),
    ] {
        ground.patch(json!({"server": asked})).await;
        ground
            .follow("the refusal", |server| is_refused(server, words))
            .await;
        let server = ground.servers().get(NAME).await.unwrap();
        let (_, reason, _) = condition(&server, conditions::STALLED).unwrap();
        assert_eq!(reason, reasons::NOT_ALLOWED);
        assert_eq!(ground.shown().await, Some(reports));
        let nothing = json!({"podTemplate": null, "serviceAccount": null});
        ground.patch(json!({"server": nothing})).await;
        ground.follow("an end of the refusal", is_ready).await;
    }
    let after = ground.deployments().get(&name).await.unwrap();
    assert_eq!(after.metadata.generation, before.metadata.generation);
}

/// The label that opens the target namespace is taken away.
async fn a_namespace_that_is_closed_stops_nothing(ground: &Ground, reports: usize) {
    open(ground, None).await;
    ground
        .follow("the refusal", |server| {
            is_refused(server, "kubectl label namespace")
        })
        .await;
    let server = ground.servers().get(NAME).await.unwrap();
    let (_, reason, _) = condition(&server, conditions::STALLED).unwrap();
    assert_eq!(reason, reasons::TARGET_NAMESPACE_CLOSED);
    ground.renews(reports).await;
    // What is in force is put right as before.
    let params = DeleteParams::default();
    let name = names::server(NAME);
    ground.deployments().delete(&name, &params).await.unwrap();
    let back = async {
        while ground.shown().await != Some(reports) {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(LIMIT, back).await.unwrap();
    open(ground, Some("true")).await;
    ground.follow("an end of the refusal", is_ready).await;
}

/// Sets the label that opens the target namespace, or takes it away.
async fn open(ground: &Ground, value: Option<&str>) {
    let namespaces: Api<Namespace> = Api::all(ground.line.client.clone());
    let label = names::LABEL_TARGET;
    let patch = Patch::Merge(json!({"metadata": {"labels": {label: value}}}));
    let params = PatchParams::default();
    let patched = namespaces.patch(TARGET_NAMESPACE, &params, &patch).await;
    patched.unwrap();
}

/// Objects that are made on request.
async fn what_is_optional_comes_and_goes(ground: &Ground, reports: usize) {
    let policies: Api<NetworkPolicy> =
        Api::namespaced(ground.line.client.clone(), TARGET_NAMESPACE);
    let count = async |wanted: usize| {
        let counted = async {
            while policies
                .list(&ListParams::default())
                .await
                .unwrap()
                .items
                .len()
                != wanted
            {
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(LIMIT, counted).await.unwrap();
    };
    ground
        .patch(json!({"networkPolicy": {"enabled": true, "clientNamespaces": ["monitoring"]}}))
        .await;
    count(3).await;
    // One that is deleted by hand is made again.
    let server = names::server(NAME);
    let params = DeleteParams::default();
    policies.delete(&server, &params).await.unwrap();
    count(3).await;
    ground.patch(json!({"networkPolicy": null})).await;
    count(0).await;
    // A CRD that is missing is named, and takes nothing else away.
    ground
        .patch(json!({"monitoring": {"serviceMonitor": true, "grafanaDashboard": true}}))
        .await;
    let named = |server: &ReportsServer| {
        let told = condition(server, conditions::MONITORING_READY);
        told.is_some_and(|(is, _, message)| is == "False" && message.contains("servicemonitors"))
    };
    ground.follow("a missing CRD", named).await;
    ground.follow("a server that serves", is_ready).await;
    ground.patch(json!({"monitoring": null})).await;
    let untold = |server: &ReportsServer| condition(server, conditions::MONITORING_READY).is_none();
    ground.follow("an end of it", untold).await;
    assert_eq!(ground.shown().await, Some(reports));
}

async fn what_the_kube_apiserver_refuses_changes_nothing(ground: &Ground, reports: usize) {
    let name = names::server(NAME);
    let before = ground.deployments().get(&name).await.unwrap();
    let resources = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}});
    ground
        .patch(json!({"server": {"resources": resources}}))
        .await;
    ground
        .follow("the refusal", |server| {
            is_refused(server, "spec.server.resources")
        })
        .await;
    let server = ground.servers().get(NAME).await.unwrap();
    let (_, reason, _) = condition(&server, conditions::STALLED).unwrap();
    assert_eq!(reason, reasons::INVALID_SPEC);
    ground.renews(reports).await;
    let after = ground.deployments().get(&name).await.unwrap();
    assert_eq!(after.metadata.generation, before.metadata.generation);
    ground.patch(json!({"server": {"resources": null}})).await;
    ground.follow("an end of the refusal", is_ready).await;
}

/// The database's pod would be replaced before anybody knows whether it finds a node.
async fn a_place_that_no_node_offers_takes_nothing_away(ground: &Ground, reports: usize) {
    let pods: Api<Pod> = Api::namespaced(ground.line.client.clone(), TARGET_NAMESPACE);
    let database = format!("{}-0", names::postgres(NAME));
    let before = pods.get(&database).await.unwrap().uid();
    let nowhere = json!({"nodeSelector": {"zone": "nowhere"}});
    ground.patch(json!({"server": nowhere})).await;
    let told = |server: &ReportsServer| {
        let reconciling = condition(server, conditions::RECONCILING);
        reconciling.is_some_and(|(is, _, message)| {
            is == "True" && message.contains("set spec.server.nodeSelector")
        })
    };
    ground
        .follow("that there is no such node", |server| {
            told(server) && is_ready(server)
        })
        .await;
    assert_eq!(ground.shown().await, Some(reports));
    assert_eq!(pods.get(&database).await.unwrap().uid(), before);

    let linux = json!({"zone": null, "kubernetes.io/os": "linux"});
    ground
        .patch(json!({"server": {"nodeSelector": linux}}))
        .await;
    let follows = async {
        let linux = |pod: Pod| {
            let nodes = pod.spec.and_then(|spec| spec.node_selector);
            nodes.is_some_and(|nodes| nodes.contains_key("kubernetes.io/os"))
        };
        while !pods.get_opt(&database).await.unwrap().is_some_and(linux) {
            tokio::time::sleep(PAUSE).await;
        }
    };
    let follows = tokio::time::timeout(LIMIT, follows).await;
    follows.expect("the database follows the server to a node that there is");
    ground.follow("a new place", is_ready).await;
}

async fn a_suspended_server_is_kept_and_looked_at(ground: &Ground, reports: usize) {
    let suspended = |server: &ReportsServer, is: &str| {
        let ready = condition(server, conditions::READY);
        ready.is_some_and(|(found, reason, _)| found == is && reason == reasons::SUSPENDED)
    };
    // An autoscaler leaves a Deployment without pods alone, and so does the operator then.
    let autoscaling = json!({"minReplicas": 1, "maxReplicas": 2});
    let autoscaling = json!({"server": {"replicas": null, "autoscaling": autoscaling}});
    ground.patch(autoscaling).await;
    ground.follow("an autoscaler", is_ready).await;
    ground.patch(json!({"suspend": true})).await;
    ground
        .follow("suspension", |server| suspended(server, "True"))
        .await;
    ground.renews(reports).await;
    Box::pin(account::is_made_again_with_its_pods(ground, reports)).await;

    let name = names::server(NAME);
    let before = ground.deployments().get(&name).await.unwrap();
    let before = before.spec.unwrap().replicas;
    scale(ground, &name, Some(0)).await;
    let away = |server: &ReportsServer| {
        let available = condition(server, conditions::SERVER_AVAILABLE);
        available.is_some_and(|(is, ..)| is == "False") && suspended(server, "False")
    };
    let told = ground
        .line
        .follow("that the server is away", TOLD, away)
        .await;
    told.unwrap();
    what_is_known_without_the_server_stays_told(ground).await;
    let scaled = ground.deployments().get(&name).await.unwrap();
    assert_eq!(
        scaled.spec.unwrap().replicas,
        Some(0),
        "nothing is repaired"
    );
    scale(ground, &name, before).await;
    ground
        .follow("a server that is back", |server| suspended(server, "True"))
        .await;
    assert_eq!(ground.shown().await, Some(reports));
    let resumed = json!({"suspend": null, "server": {"autoscaling": null}});
    ground.patch(resumed).await;
    ground.follow("the end of the suspension", is_ready).await;
}

/// Looks for as long as the operator needs for some attempts to ask the control API.
async fn what_is_known_without_the_server_stays_told(ground: &Ground) {
    let servers: Api<ReportsServer> = Api::all(ground.line.client.clone());
    let began = Instant::now();
    while began.elapsed() < ATTEMPTS {
        let server = servers.get(NAME).await.unwrap();
        for (type_, expected) in [
            (conditions::ROLLBACK_AVAILABLE, reasons::AS_EXPECTED),
            (conditions::DATA_MIGRATED, reasons::VERIFIED),
        ] {
            let (is, reason, message) = condition(&server, type_).unwrap();
            assert_eq!((is, reason), ("True", expected), "{type_}: {message}");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn scale(ground: &Ground, name: &str, replicas: Option<i32>) {
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    let params = PatchParams::default();
    ground
        .deployments()
        .patch(name, &params, &patch)
        .await
        .unwrap();
}

/// Two commits of somebody who deploys by Git, the second before the first is carried out.
async fn a_group_that_is_named_no_more_goes_back(ground: &Ground, reports: usize) {
    let [first, second] = GROUPS;
    let kept = json!({"group": second, "owner": "Server"});
    let back = json!({"group": first, "owner": "CRD"});
    ground.patch(json!({"apis": [back, kept]})).await;
    ground.patch(json!({"apis": [kept]})).await;
    ground
        .follow("the way back", |server| {
            let migration = server.status.as_ref().and_then(|s| s.migration.as_ref());
            let groups = migration
                .map(|migration| &migration.groups[..])
                .unwrap_or_default();
            is_ready(server) && groups.iter().all(|group| group.group == second)
        })
        .await;
    let services: Api<APIService> = Api::all(ground.line.client.clone());
    let services = services.list(&ListParams::default()).await.unwrap();
    let of_first = services
        .items
        .iter()
        .filter_map(|service| service.spec.as_ref());
    let mut of_first = of_first.filter(|spec| spec.group.as_deref() == Some(first));
    assert!(of_first.all(|spec| spec.service.is_none()));
    assert_eq!(ground.shown().await, Some(reports));
}
