//! Two installations of the operator, in two namespaces, on a control plane without nodes: one leads,
//! and the other waits for it, as long as both have an operator's rights.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use reports_server_operator::leader::{self, Candidate, Config, Error};
use reports_server_operator::names::{OPERATOR, OPERATOR_NAMESPACE};
use serde_json::{Value, json};
use testcluster::{Cluster, ClusterOptions};
use tokio_util::sync::CancellationToken;

/// Namespace of the second installation, and its binding.
const SECOND: &str = "second";
/// Namespace of somebody who may do nothing but make Leases.
const TENANT: &str = "tenant";
/// Pause between two renewals of the tenant's Lease.
const RENEWAL: Duration = Duration::from_secs(1);
/// The time in which the second looks several times.
const LOOKS: Duration = Duration::from_secs(6);
/// Longest wait: a leader looks every ten seconds, and ends when it has seen another renew its Lease.
const LIMIT: Duration = Duration::from_mins(1);

/// A candidate of one of the installations.
struct Installation {
    candidate: Candidate,
    release: CancellationToken,
}

impl Installation {
    fn start(client: &Client, namespace: &str) -> Self {
        let release = CancellationToken::new();
        let config = Config::new(namespace, OPERATOR, "pod");
        Self {
            candidate: leader::campaign(client.clone(), config, release.clone()),
            release,
        }
    }

    async fn leads(&mut self) {
        let leads = self.candidate.leading.wait_for(|leads| *leads);
        let leads = tokio::time::timeout(LIMIT, leads).await;
        leads.expect("it leads in time").unwrap();
        assert!(*self.candidate.ready.borrow(), "one that leads is ready");
    }

    /// The other one leads, and it stays so.
    async fn waits(&mut self) {
        let leads = self.candidate.leading.wait_for(|leads| *leads);
        let leads = tokio::time::timeout(LOOKS, leads).await;
        assert!(leads.is_err(), "two lead");
        assert!(!*self.candidate.ready.borrow(), "one that waits is ready");
    }

    async fn stop(self) {
        self.release.cancel();
        self.candidate.task.await.unwrap().unwrap();
    }
}

/// Returns the account of an installation in a namespace, bound to the operator's role.
fn binding(namespace: &str) -> ClusterRoleBinding {
    serde_json::from_value(json!({
        "metadata": {"name": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": OPERATOR},
        "subjects": [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": namespace}],
    }))
    .unwrap()
}

fn namespaces() -> Value {
    let namespace =
        |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    json!({"apiVersion": "v1", "kind": "List", "items": [namespace(SECOND), namespace(TENANT)]})
}

/// Keeps a Lease of the operator's name alive, as anybody can who may write Leases somewhere.
async fn tenant(client: Client) {
    let leases: Api<Lease> = Api::namespaced(client, TENANT);
    for transitions in 1.. {
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": OPERATOR},
            "spec": {"holderIdentity": "tenant", "leaseDurationSeconds": 3600,
                "leaseTransitions": transitions}});
        let params = PatchParams::apply("tenant");
        leases
            .patch(OPERATOR, &params, &Patch::Apply(&lease))
            .await
            .unwrap();
        tokio::time::sleep(RENEWAL).await;
    }
}

#[tokio::test]
async fn of_two_installations_one_leads() {
    let cluster = Cluster::start(ClusterOptions::default()).await.unwrap();
    let client = cluster.client().await.unwrap();
    let install = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests/install.yaml");
    cluster
        .kubectl(["apply", "--server-side", "-f", install])
        .await
        .unwrap();
    cluster
        .kubectl_with_input(["apply", "-f", "-"], &namespaces().to_string())
        .await
        .unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let bind = async || {
        let params = PostParams::default();
        bindings.create(&params, &binding(SECOND)).await.unwrap();
    };
    bind().await;
    let tenant = tokio::spawn(tenant(client.clone()));

    let mut first = Installation::start(&client, OPERATOR_NAMESPACE);
    first.leads().await;
    let mut second = Installation::start(&client, SECOND);
    second.waits().await;
    first.stop().await;
    second.leads().await;

    let mut first = Installation::start(&client, OPERATOR_NAMESPACE);
    first.waits().await;
    // Without its rights, the second is no operator.
    let params = DeleteParams::default();
    bindings.delete(SECOND, &params).await.unwrap();
    first.leads().await;
    // With them, there are two that lead, until one has seen the other.
    bind().await;
    let ended = tokio::time::timeout(LIMIT, async {
        tokio::select! {
            ended = &mut first.candidate.task => ended.unwrap(),
            ended = &mut second.candidate.task => ended.unwrap(),
        }
    });
    let ended = ended.await.expect("one of two leaders ends");
    assert!(matches!(ended, Err(Error::Rival(_))), "{ended:?}");
    tenant.abort();
}
