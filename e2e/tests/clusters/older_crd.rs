//! An operator without a CRD, with one that lacks fields of its own, and with its own, on a control
//! plane without nodes: it never ends, writes what the CRD takes, and says once what is missing.

use std::collections::BTreeMap;
use std::time::Duration;

use crds::names::LABEL_TARGET;
use crds::v1alpha1::conditions::READY;
use crds::v1alpha1::{ReportsServer, reasons, reports_server_crd};
use e2e::operator::Operator;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use testcluster::{Cluster, ClusterOptions};

const NAME: &str = "subject";
const NAMESPACE: &str = "target";
const MANAGER: &str = "test";
/// The parts and fields that the older CRD lacks.
const LACKS: [(&str, &str); 2] = [("spec", "suspend"), ("status", "effective")];
/// A watch that has failed some times is opened again within a minute.
const LIMIT: Duration = Duration::from_secs(100);
const PAUSE: Duration = Duration::from_millis(200);

#[tokio::test]
async fn the_status_is_written_as_the_crd_takes_it() {
    let cluster = Cluster::start(ClusterOptions::default()).await.unwrap();
    let ground = Ground::start(&cluster).await;
    ground.lacks(-1).await;

    ground.install(&older()).await;
    ground.apply("Info").await;
    ground.status_answers(1).await;
    ground.lacks(2).await;
    let object = ground.servers().get(NAME).await.unwrap();
    assert_eq!(object.spec.suspend, None, "the CRD has no such field");
    let status = object.status.unwrap();
    assert_eq!(status.effective, None, "the CRD has no such field");
    let mut conditions = status.conditions.iter();
    assert!(conditions.any(|condition| condition.type_ == READY));
    ground.is_told_once().await;
    refused_by_kubectl(&cluster).await;

    // Nor is it told again.
    ground.apply("Debug").await;
    ground.status_answers(2).await;
    ground.is_told_once().await;

    ground.install(&reports_server_crd().unwrap()).await;
    ground.lacks(0).await;
    let servers = ground.servers();
    until("the whole status", async || {
        let status = servers.get(NAME).await.ok().and_then(|found| found.status);
        status.is_some_and(|status| status.effective.is_some())
    })
    .await;
    ground.apply("Debug").await;
    let object = servers.get(NAME).await.unwrap();
    assert_eq!(object.spec.suspend, Some(false));
}

/// Returns the CRD without some fields.
fn older() -> CustomResourceDefinition {
    let mut crd = serde_json::to_value(reports_server_crd().unwrap()).unwrap();
    let schema = "/spec/versions/0/schema/openAPIV3Schema";
    for (part, field) in LACKS {
        let fields = crd.pointer_mut(&format!("{schema}/properties/{part}/properties"));
        let fields = fields.and_then(Value::as_object_mut).unwrap();
        fields.remove(field).unwrap();
    }
    serde_json::from_value(crd).unwrap()
}

/// Returns the `ReportsServer`, with a field that the older CRD lacks.
fn object(level: &str) -> Value {
    json!({
        "apiVersion": "reports-server.io/v1alpha1",
        "kind": "ReportsServer",
        "metadata": {"name": NAME},
        "spec": {
            "targetNamespace": NAMESPACE,
            "apis": [],
            "suspend": false,
            "server": {"logging": {"level": level}},
        },
    })
}

/// The field is not dropped behind the back of a person.
async fn refused_by_kubectl(cluster: &Cluster) {
    let text = object("Info").to_string();
    let refused = cluster
        .kubectl_with_input(["apply", "-f", "-"], &text)
        .await;
    let words = refused.unwrap_err().to_string();
    assert!(words.contains("unknown field \"spec.suspend\""), "{words}");
}

async fn until(what: &str, met: impl AsyncFn() -> bool) {
    let reached = async {
        while !met().await {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(LIMIT, reached)
        .await
        .unwrap_or_else(|_| panic!("not in {LIMIT:?}: {what}"));
}

struct Ground {
    client: Client,
    operator: Operator,
}

impl Ground {
    /// Makes the namespace, and starts the operator without a CRD.
    async fn start(cluster: &Cluster) -> Self {
        let client = cluster.client().await.unwrap();
        let labels = json!({LABEL_TARGET: "true"});
        let namespace = json!({"metadata": {"name": NAMESPACE, "labels": labels}});
        let namespace: Namespace = serde_json::from_value(namespace).unwrap();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let made = namespaces.create(&PostParams::default(), &namespace).await;
        made.unwrap();
        let operator = Operator::start(cluster, BTreeMap::new()).await.unwrap();
        Self { client, operator }
    }

    fn servers(&self) -> Api<ReportsServer> {
        Api::all(self.client.clone())
    }

    /// Installs a CRD, or replaces the one that there is.
    async fn install(&self, crd: &CustomResourceDefinition) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let params = PatchParams::apply(MANAGER).force();
        let (name, patch) = (crd.name_any(), Patch::Apply(crd));
        crds.patch(&name, &params, &patch).await.unwrap();
        let servers = self.servers();
        until("the kube-apiserver serves the kind", async || {
            servers.list(&ListParams::default()).await.is_ok()
        })
        .await;
    }

    /// Asks for a server by a client that is not strict.
    async fn apply(&self, level: &str) {
        let patch = Patch::Merge(json!({"spec": object(level)["spec"]}));
        let servers = self.servers();
        if servers.get_opt(NAME).await.unwrap().is_none() {
            let new: ReportsServer = serde_json::from_value(object(level)).unwrap();
            servers.create(&PostParams::default(), &new).await.unwrap();
            return;
        }
        let patched = servers.patch(NAME, &PatchParams::default(), &patch).await;
        patched.unwrap();
    }

    /// Waits for a status that answers this generation.
    async fn status_answers(&self, generation: i64) {
        let servers = self.servers();
        until("a status", async || {
            let status = servers.get(NAME).await.ok().and_then(|found| found.status);
            status.is_some_and(|status| status.observed_generation == Some(generation))
        })
        .await;
    }

    /// Waits until the metric shows that so much is missing.
    async fn lacks(&self, count: i64) {
        let line = format!("reports_server_operator_crd_missing_fields {count}\n");
        until(&line, async || {
            self.operator.metrics().unwrap().contains(&line)
        })
        .await;
    }

    /// One event says what is missing.
    async fn is_told_once(&self) {
        let events: Api<Event> = Api::all(self.client.clone());
        let mut told = events.list(&ListParams::default()).await.unwrap().items;
        told.retain(|event| event.reason.as_deref() == Some(reasons::CRD_OUTDATED));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].series.is_none(), "{told:?}");
        assert_eq!(told[0].type_.as_deref(), Some("Warning"));
        let note = told[0].note.as_deref().unwrap_or_default();
        for (part, field) in LACKS {
            assert!(note.contains(&format!("{part}.{field}")), "{note}");
        }
    }
}
