//! A `ReportsServer` on a control plane without nodes, and what its status says.

use std::time::Duration;

use crds::names::LABEL_TARGET;
use crds::v1alpha1::ReportsServer;
use crds::v1alpha1::conditions::DATABASE_READY;
use crds::v1alpha1::status::DatabaseStatus;
use e2e::cnpg;
use e2e::operator::Operator;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::conditions;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt as _};
use pgtest::Params;
use serde_json::{Value, json};
use testcluster::Cluster;

/// Namespace of the server.
pub const NAMESPACE: &str = "target";
const NAME: &str = "subject";
const MANAGER: &str = "test";
/// Longer than the operator waits until it looks again at a database that was well.
const LIMIT: Duration = Duration::from_secs(100);
const PAUSE: Duration = Duration::from_millis(100);

/// The `ReportsServer`.
pub struct Subject {
    /// The administrator's client.
    pub client: Client,
}

impl Subject {
    /// Installs the CRD and makes the namespace.
    pub async fn prepare(cluster: &Cluster) -> Self {
        let client = cluster.client().await.unwrap();
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        let crd = crds::v1alpha1::reports_server_crd().unwrap();
        let name = crd.name_any();
        crds.create(&PostParams::default(), &crd).await.unwrap();
        let established = await_condition(crds, &name, conditions::is_crd_established());
        tokio::time::timeout(LIMIT, established)
            .await
            .unwrap()
            .unwrap();
        let labels = json!({LABEL_TARGET: "true"});
        let namespace = json!({"metadata": {"name": NAMESPACE, "labels": labels}});
        let namespace: Namespace = serde_json::from_value(namespace).unwrap();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
        Self { client }
    }

    /// Asks for this database.
    pub async fn apply(&self, database: Value) {
        self.apply_spec(json!({"apis": [], "database": database}))
            .await;
    }

    /// Asks for all of this, in [`NAMESPACE`].
    pub async fn apply_spec(&self, mut spec: Value) {
        spec["targetNamespace"] = json!(NAMESPACE);
        let object = json!({
            "apiVersion": "reports-server.io/v1alpha1", "kind": "ReportsServer",
            "metadata": {"name": NAME}, "spec": spec,
        });
        let params = PatchParams::apply(MANAGER).force();
        self.all()
            .patch(NAME, &params, &Patch::Apply(&object))
            .await
            .unwrap();
    }

    fn all(&self) -> Api<ReportsServer> {
        Api::all(self.client.clone())
    }

    /// Writes a Secret with exactly these keys.
    pub async fn secret(&self, name: &str, params: &Params) {
        let values = params.to_map().into_iter();
        let values: serde_json::Map<String, Value> = values
            .map(|(key, value)| (key, json!(String::from_utf8(value).unwrap())))
            .collect();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": values});
        let api: Api<Secret> = Api::namespaced(self.client.clone(), NAMESPACE);
        let secret: Secret = serde_json::from_value(secret).unwrap();
        match api.get_opt(name).await.unwrap() {
            None => drop(api.create(&PostParams::default(), &secret).await.unwrap()),
            Some(present) => {
                let mut secret = secret;
                secret.metadata.resource_version = present.resource_version();
                api.replace(name, &PostParams::default(), &secret)
                    .await
                    .unwrap();
            }
        }
    }

    /// Waits until `DatabaseReady` has this reason, and returns its message. It is true with the
    /// one good reason only.
    pub async fn database_is(&self, reason: &str) -> String {
        let found = |object: &ReportsServer| {
            let status = object.status.as_ref()?;
            let mut conditions = status.conditions.iter();
            conditions.find(|c| c.type_ == DATABASE_READY).cloned()
        };
        let reached = await_condition(self.all(), NAME, |object: Option<&ReportsServer>| {
            object
                .and_then(found)
                .is_some_and(|condition| condition.reason == reason)
        });
        let Ok(object) = tokio::time::timeout(LIMIT, reached).await else {
            let last = self.all().get(NAME).await.unwrap();
            panic!("{reason} was not reached: {:#?}", last.status)
        };
        let object = object.unwrap().unwrap();
        let condition = found(&object).unwrap();
        let good = reason == "DatabaseAvailable";
        assert_eq!(condition.status, if good { "True" } else { "False" });
        condition.message
    }

    /// Waits for the `Cluster` of this name, and returns it. The condition that tells of it may be of
    /// an attempt before its kind was served.
    pub async fn cluster_is_made(&self, name: &str) -> DynamicObject {
        let exists = |cluster: Option<&DynamicObject>| cluster.is_some();
        let made = await_condition(cnpg::clusters(&self.client, NAMESPACE), name, exists);
        let made = tokio::time::timeout(LIMIT, made).await.unwrap();
        made.unwrap().unwrap()
    }

    /// `status.database`.
    pub async fn database_status(&self) -> DatabaseStatus {
        let object = self.all().get(NAME).await.unwrap();
        object.status.unwrap().database.unwrap()
    }

    /// Returns the template of the pods.
    pub async fn pod_template(&self) -> Value {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        let deployment = api.get(&format!("{NAME}-server")).await.unwrap();
        serde_json::to_value(deployment.spec.unwrap().template).unwrap()
    }

    /// Waits for an event about it with this reason.
    pub async fn event(&self, reason: &str) {
        let api: Api<Event> = Api::all(self.client.clone());
        let found = async {
            loop {
                let events = api.list(&ListParams::default()).await.unwrap();
                let ours = |event: &Event| {
                    event.regarding.as_ref().and_then(|r| r.name.as_deref()) == Some(NAME)
                        && event.reason.as_deref() == Some(reason)
                };
                if events.iter().any(ours) {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(LIMIT, found)
            .await
            .unwrap_or_else(|_| panic!("no event {reason}"));
    }

    /// Waits until the operator has found the database usable more often than `before`.
    pub async fn database_is_found_usable_again(&self, operator: &Operator, before: u64) {
        let again = async {
            while times_usable(operator) <= before {
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(LIMIT, again)
            .await
            .expect("the operator looks at the database again");
    }
}

/// Returns the number of times that the operator has looked at the database and found that it can
/// be used.
pub fn times_usable(operator: &Operator) -> u64 {
    let text = operator.metrics().unwrap();
    let start = "reports_server_operator_database_examinations_total\
                 {name=\"subject\",reason=\"DatabaseAvailable\"} ";
    let mut lines = text.lines();
    let count = lines.find_map(|line| line.strip_prefix(start));
    count.map_or(0, |count| count.parse().unwrap())
}
