//! Two operators, as they are installed: whatever becomes of the one that leads, the other goes on, and
//! one that comes back does nothing. Both leave their only node when it is drained.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::{options, say};
use crds::names;
use crds::v1alpha1::status::MigrationPhase;
use e2e::takeover::{NAME, OPERATOR_NAMESPACE, TARGET_NAMESPACE, Takeover, all_groups, is_ready};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use serde_json::json;
use testcluster::Signal;
use testcluster::network::NODE_NAME;
use testreports::{Input, ReportKind};
use tokio::time::Instant;

const LIMIT: Duration = Duration::from_mins(5);
const REPORTS: usize = 100;
/// As many as take a leader seconds to write back one after the other.
const MANY: usize = 1_500;
/// Copies in etcd from which on a way back is under way.
const BEGUN: u64 = 50;
const PAUSE: Duration = Duration::from_millis(200);
/// Pause between two looks at what lasts for seconds.
const SHORT_PAUSE: Duration = Duration::from_millis(20);
/// Longest time until another operator leads when the first says nothing any more: the Lease, which is
/// renewed and looked at every two seconds, and some seconds on a machine that is busy.
const EXPIRED: Duration = Duration::from_secs(25);
/// The same when the first gives the Lease up.
const HANDED_OVER: Duration = Duration::from_secs(10);
/// Name of the operators' Deployment in `manifests/install.yaml`; that of the quota begins so.
const OPERATOR: &str = "reports-server-operator";
const CONTAINER: &str = "operator";
const PODS: &str = "app.kubernetes.io/component=operator";

struct Ground {
    line: Takeover,
}

/// The children that an operator would change which does not know the present.
#[derive(Debug, PartialEq)]
struct Children {
    deployment: Option<i64>,
    config: Option<String>,
    certificate: Option<String>,
    leader: Option<String>,
}

impl Ground {
    async fn start(reports: usize) -> Self {
        let options = options(Input::Generated { seed: 29 }, reports);
        let line = Takeover::prepare(options, say).await.unwrap();
        line.install_operator().await.unwrap();
        line.apply().await.unwrap();
        line.follow_to_ready(LIMIT).await.unwrap();
        Self { line }
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.line.client.clone(), OPERATOR_NAMESPACE)
    }

    /// Returns the pods of the operators that are not being deleted.
    async fn operators(&self) -> Vec<Pod> {
        let params = ListParams::default().labels(PODS);
        let mut found = self.pods().list(&params).await.unwrap().items;
        found.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        found
    }

    /// Returns the name of the pod that leads.
    async fn leader(&self) -> String {
        let leader = self.line.leader().await.unwrap();
        leader.expect("an operator leads")
    }

    /// Waits until another operator than this one leads, and returns its name.
    async fn another_leads(&self, than: &str, limit: Duration) -> String {
        let began = Instant::now();
        loop {
            let leader = self.line.leader().await.unwrap();
            if let Some(leader) = leader.filter(|leader| leader != than) {
                println!("{leader} leads after {:.1?}", began.elapsed());
                return leader;
            }
            assert!(began.elapsed() < limit, "{than} leads after {limit:?}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn signal(&self, pod: &str, signal: Signal) {
        let cluster = &self.line.cluster;
        let sent = cluster.signal_container(OPERATOR_NAMESPACE, pod, CONTAINER, signal);
        sent.await.unwrap();
    }

    /// Changes the specification, and waits until the status says that it is in force.
    async fn goes_on(&self, level: &str) {
        let logging = json!({"server": {"logging": {"level": level}}});
        self.line.patch_spec(logging).await.unwrap();
        self.line
            .follow("a status that goes on", LIMIT, is_ready)
            .await
            .unwrap();
    }

    /// Waits until both operators are there and ready.
    async fn both_are_ready(&self) {
        let deployment = format!("deployment/{OPERATOR}");
        let rollout = ["rollout", "status", &deployment, "--timeout=170s"];
        let arguments = [&["-n", OPERATOR_NAMESPACE][..], &rollout].concat();
        self.line.cluster.kubectl(arguments).await.unwrap();
        assert_eq!(self.operators().await.len(), 2);
    }

    /// Drains the only node of operators; returns whether it was done in time.
    async fn drain(&self, limit: &str) -> bool {
        let selector = format!("--pod-selector={PODS}");
        let timeout = format!("--timeout={limit}");
        let drain = ["drain", NODE_NAME, &selector, &timeout];
        let drained = self.line.cluster.kubectl(drain).await;
        if let Err(error) = &drained {
            println!("{error}");
        }
        drained.is_ok()
    }

    /// Lets pods onto the node again.
    async fn uncordon(&self) {
        let uncordon = ["uncordon", NODE_NAME];
        self.line.cluster.kubectl(uncordon).await.unwrap();
    }

    async fn restarts(&self, pod: &str) -> i32 {
        let pod = self.pods().get(pod).await.unwrap();
        let containers = pod.status.and_then(|status| status.container_statuses);
        let mut counts = containers
            .into_iter()
            .flatten()
            .map(|one| one.restart_count);
        counts.next().unwrap_or(0)
    }

    /// Waits until the operator of this pod, which was restarted so often before, has ended.
    async fn ends(&self, pod: &str, restarts: i32) {
        let ended = async {
            while self.restarts(pod).await == restarts {
                tokio::time::sleep(PAUSE).await;
            }
        };
        let ended = tokio::time::timeout(LIMIT, ended).await;
        ended.expect("one that has lost the Lease ends");
    }

    /// Lets operators stand still for longer than the kubelet otherwise allows.
    async fn be_patient(&self) {
        let deployment = format!("deployment/{OPERATOR}");
        let threshold = "/spec/template/spec/containers/0/livenessProbe/failureThreshold";
        let patch = json!([{"op": "add", "path": threshold, "value": 100}]).to_string();
        let change = ["patch", &deployment, "--type=json", "--patch", &patch];
        let arguments = [&["-n", OPERATOR_NAMESPACE][..], &change].concat();
        self.line.cluster.kubectl(arguments).await.unwrap();
        self.both_are_ready().await;
    }

    /// Returns the number of policy reports in etcd.
    async fn copies(&self) -> u64 {
        let kind = ReportKind::PolicyReport;
        let prefix = format!("/registry/{}/{}/", kind.group(), kind.plural());
        self.line.cluster.etcd_count(&prefix).await.unwrap()
    }

    /// Waits until so many policy reports are in etcd.
    async fn copies_are_made(&self, count: u64) {
        let made = async {
            while self.copies().await < count {
                tokio::time::sleep(SHORT_PAUSE).await;
            }
        };
        let made = tokio::time::timeout(LIMIT, made).await;
        made.expect("the way back begins");
    }

    /// Sets the number of copies that are written at the same time, and the largest page.
    async fn write_back_by(&self, concurrency: u32) {
        let migration = json!({"concurrency": concurrency, "pageSize": 1000});
        let members = json!({"migration": migration});
        self.line.patch_spec(members).await.unwrap();
    }

    /// Waits until the CRDs serve all groups.
    async fn is_given_back(&self) {
        let done = |phase: MigrationPhase| phase == MigrationPhase::RolledBack;
        self.line
            .follow("the way back", LIMIT, |server| all_groups(server, done))
            .await
            .unwrap();
    }

    /// Deletes all policy reports.
    async fn delete_reports(&self) {
        let resource = ReportKind::PolicyReport.api_resource();
        let all: Api<DynamicObject> = Api::all_with(self.line.client.clone(), &resource);
        let found = all.list(&ListParams::default()).await.unwrap().items;
        let namespaces = found.into_iter().filter_map(|one| one.metadata.namespace);
        for namespace in namespaces.collect::<BTreeSet<_>>() {
            let client = self.line.client.clone();
            let api: Api<DynamicObject> = Api::namespaced_with(client, &namespace, &resource);
            api.delete_collection(&DeleteParams::default(), &ListParams::default())
                .await
                .unwrap();
        }
        assert_eq!(self.copies().await, 0);
    }

    async fn children(&self) -> Children {
        let client = || self.line.client.clone();
        let deployments: Api<Deployment> = Api::namespaced(client(), TARGET_NAMESPACE);
        let configs: Api<ConfigMap> = Api::namespaced(client(), TARGET_NAMESPACE);
        let secrets: Api<Secret> = Api::namespaced(client(), TARGET_NAMESPACE);
        let deployment = deployments.get(&names::server(NAME)).await.unwrap();
        let config = configs.get(&names::config(NAME)).await.unwrap();
        let certificate = secrets.get(&names::serving_cert(NAME)).await.unwrap();
        Children {
            deployment: deployment.metadata.generation,
            config: config.metadata.resource_version,
            certificate: certificate.metadata.resource_version,
            leader: self.line.leader().await.unwrap(),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_becomes_of_the_leader_the_other_goes_on() {
    let ground = Ground::start(REPORTS).await;
    ground.both_are_ready().await;
    Box::pin(they_have_the_priority_of_the_system(&ground)).await;
    let witness = ground.line.witness().await.unwrap();
    Box::pin(one_that_stands_still_does_nothing_when_it_wakes(&ground)).await;
    Box::pin(one_that_is_lost_is_replaced(&ground)).await;
    Box::pin(one_that_is_told_to_end_hands_over(&ground)).await;
    Box::pin(both_leave_a_node_that_is_drained(&ground)).await;
    Box::pin(with_a_budget_one_operator_leaves_it(&ground)).await;
    let account = witness.finish().await.unwrap();
    assert!(account.is_clean(), "{account:#?}");
}

/// The quota of the installation admits them where clusters restrict that.
async fn they_have_the_priority_of_the_system(ground: &Ground) {
    for pod in ground.operators().await {
        let spec = pod.spec.unwrap();
        let class = spec.priority_class_name.as_deref();
        assert_eq!(class, Some("system-cluster-critical"));
        assert_eq!(spec.priority, Some(2_000_000_000));
    }
    let quota = format!("resourcequota/{OPERATOR}-critical-pods");
    let counted = "--for=jsonpath={.status.hard.pods}=1G";
    let wait = ["wait", counted, &quota, "--timeout=60s"];
    let arguments = [&["-n", OPERATOR_NAMESPACE][..], &wait].concat();
    ground.line.cluster.kubectl(arguments).await.unwrap();
}

/// It believes that it leads, until it looks at the Lease.
async fn one_that_stands_still_does_nothing_when_it_wakes(ground: &Ground) {
    let old = ground.leader().await;
    let restarts = ground.restarts(&old).await;
    ground.signal(&old, Signal::Stop).await;
    let new = ground.another_leads(&old, EXPIRED).await;
    ground.goes_on("Debug").await;
    let before = ground.children().await;
    assert_eq!(before.leader.as_ref(), Some(&new));
    ground.signal(&old, Signal::Cont).await;
    ground.ends(&old, restarts).await;
    ground.both_are_ready().await;
    assert_eq!(ground.children().await, before);
}

/// Nobody hears of it any more, as if its node were gone.
async fn one_that_is_lost_is_replaced(ground: &Ground) {
    let old = ground.leader().await;
    // So that it cannot give the Lease up when the kubelet ends it.
    ground.signal(&old, Signal::Stop).await;
    let params = DeleteParams::default().grace_period(0);
    ground.pods().delete(&old, &params).await.unwrap();
    ground.another_leads(&old, EXPIRED).await;
    ground.goes_on("Info").await;
    ground.both_are_ready().await;
}

async fn one_that_is_told_to_end_hands_over(ground: &Ground) {
    let old = ground.leader().await;
    let params = DeleteParams::default();
    ground.pods().delete(&old, &params).await.unwrap();
    ground.another_leads(&old, HANDED_OVER).await;
    ground.goes_on("Debug").await;
    ground.both_are_ready().await;
}

/// Nothing in the installation holds up whoever drains the only node, and both are back when it is.
async fn both_leave_a_node_that_is_drained(ground: &Ground) {
    assert!(ground.drain("120s").await);
    ground.uncordon().await;
    ground.both_are_ready().await;
    ground.goes_on("Info").await;
}

/// A budget as that of the chart keeps the last of two on the only node, and one operator alone goes.
async fn with_a_budget_one_operator_leaves_it(ground: &Ground) {
    let budget = ["-n", OPERATOR_NAMESPACE, "create", "poddisruptionbudget"];
    let selector = format!("--selector={PODS}");
    let spec = [OPERATOR, &selector, "--max-unavailable=1"];
    let create = [&budget[..], &spec].concat();
    ground.line.cluster.kubectl(create).await.unwrap();
    assert!(!ground.drain("30s").await, "both have left");
    ground.line.scale_operator(1).await.unwrap();
    assert!(ground.drain("120s").await);
    ground.uncordon().await;
    ground.line.scale_operator(2).await.unwrap();
    ground.both_are_ready().await;
    ground.goes_on("Debug").await;
}

/// It wakes with copies before it that it was about to make. The way back has ended since, and a client
/// has deleted their reports.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_wakes_after_the_way_back_undoes_no_deletion() {
    let ground = Ground::start(MANY).await;
    ground.be_patient().await;
    let all = ground.copies().await;
    ground.line.prune(LIMIT).await.unwrap();
    assert_eq!(ground.copies().await, 0);
    // One after the other: many are left to be made when the leader stands still.
    ground.write_back_by(1).await;
    ground.line.set_owner("CRD").await.unwrap();
    let old = ground.leader().await;
    let restarts = ground.restarts(&old).await;
    ground.copies_are_made(BEGUN).await;
    ground.signal(&old, Signal::Stop).await;
    let made = ground.copies().await;
    assert!(
        made < all,
        "all {all} were made before the leader stood still"
    );
    ground.write_back_by(16).await;
    ground.another_leads(&old, EXPIRED).await;
    ground.is_given_back().await;
    assert_eq!(ground.copies().await, all);
    ground.delete_reports().await;
    assert_eq!(ground.restarts(&old).await, restarts, "it was replaced");
    ground.signal(&old, Signal::Cont).await;
    ground.ends(&old, restarts).await;
    ground.both_are_ready().await;
    assert_eq!(
        ground.copies().await,
        0,
        "a report that was deleted is back"
    );
}
