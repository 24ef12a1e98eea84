//! The target namespace deleted before the `ReportsServer`: it is refused as long as API groups
//! depend on the server in it. Where it was forced, the deletion of the `ReportsServer` ends all the
//! same, and the CRDs serve what etcd has.

use super::ground::{Ground, LIMIT, PAUSE};
use crds::v1alpha1::{ReportsServer, conditions, reasons};
use e2e::takeover::{NAME, TARGET_NAMESPACE};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::wait::{await_condition, conditions as reached};

/// Name of the admission policy in `manifests/install.yaml`.
const GUARD: &str = "reports-server-target-namespaces";

impl Ground {
    fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.line.client.clone())
    }

    /// Returns the reason why the namespace cannot be deleted; nothing where it can. A dry run
    /// deletes nothing.
    async fn refusal(&self, dry_run: bool) -> Option<String> {
        let params = DeleteParams {
            dry_run,
            ..DeleteParams::default()
        };
        match self.namespaces().delete(TARGET_NAMESPACE, &params).await {
            Ok(_) => None,
            Err(kube::Error::Api(status)) if status.code == 403 => Some(status.message.clone()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until the kube-apiserver knows whether the policy refuses a deletion.
    async fn guarded(&self, guarded: bool) {
        let known = async {
            while self.refusal(true).await.is_some() != guarded {
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(LIMIT, known).await.unwrap();
    }

    /// Waits until the namespace is gone.
    async fn namespace_gone(&self) {
        let namespaces = self.namespaces();
        let Some(found) = namespaces.get_opt(TARGET_NAMESPACE).await.unwrap() else {
            return;
        };
        let uid = found.metadata.uid.unwrap();
        let gone = await_condition(namespaces, TARGET_NAMESPACE, reached::is_deleted(&uid));
        let gone = tokio::time::timeout(LIMIT, gone).await;
        gone.expect("the namespace is deleted").unwrap();
    }
}

fn says(server: &ReportsServer, type_: &str, is: &str, words: &str) -> bool {
    let conditions = server.status.as_ref().map(|status| &status.conditions);
    conditions.into_iter().flatten().any(|condition| {
        condition.type_ == type_
            && condition.status == is
            && condition.reason == reasons::TARGET_NAMESPACE_MISSING
            && condition.message.contains(words)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_groups_depend_on_goes_after_them() {
    let ground = Ground::prepare(23).await;
    Box::pin(its_deletion_is_refused_and_nobody_notices(&ground)).await;
    Box::pin(it_can_be_deleted_after_the_way_back(&ground)).await;

    ground.line.apply().await.unwrap();
    ground.line.follow_to_ready(LIMIT).await.unwrap();
    Box::pin(a_forced_deletion_comes_to_an_end(&ground)).await;
}

async fn its_deletion_is_refused_and_nobody_notices(ground: &Ground) {
    ground.guarded(true).await;
    let witness = ground.line.witness().await.unwrap();
    let refusal = ground.refusal(false).await.expect("a refusal");
    let command = format!("kubectl delete reportsserver {NAME}");
    assert!(refusal.contains(&command), "{refusal}");
    let namespace = ground.namespaces().get(TARGET_NAMESPACE).await.unwrap();
    assert_eq!(namespace.metadata.deletion_timestamp, None);
    let account = witness.finish().await.unwrap();
    assert!(account.is_clean(), "{account:?}");
    // Other namespaces are none of its business.
    let params = DeleteParams::default().dry_run();
    ground
        .namespaces()
        .delete("team-00", &params)
        .await
        .unwrap();
}

async fn it_can_be_deleted_after_the_way_back(ground: &Ground) {
    let before = ground.contents().await.unwrap();
    ground.delete_server().await;
    assert!(ground.is_served_by_crds().await);
    ground.shows(&before).await;
    assert_eq!(ground.refusal(false).await, None);
    ground.namespace_gone().await;
}

/// Somebody has removed the policy first.
async fn a_forced_deletion_comes_to_an_end(ground: &Ground) {
    let before = ground.contents().await.unwrap();
    let remove = ["delete", "validatingadmissionpolicybinding", GUARD];
    ground.line.cluster.kubectl(remove).await.unwrap();
    ground.guarded(false).await;
    assert_eq!(ground.refusal(false).await, None);
    let command = format!("kubectl delete reportsserver {NAME}");
    let told = |server: &ReportsServer| {
        says(server, conditions::STALLED, "True", &command)
            && says(server, conditions::SERVER_AVAILABLE, "False", &command)
    };
    let stalled = ground.line.follow("the reason", LIMIT, told).await;
    stalled.unwrap();
    // What the server alone has is given up only when a person asks for it.
    assert!(!ground.is_served_by_crds().await);

    ground.delete_server().await;
    assert!(ground.is_served_by_crds().await);
    ground.namespace_gone().await;
    // The copies in etcd were not pruned yet, and nobody has written since the switch.
    ground.shows(&before).await;
    let events: Api<Event> = Api::all(ground.line.client.clone());
    let events = events.list(&ListParams::default()).await.unwrap();
    let told = events.items.iter().any(|event| {
        event.action.as_deref() == Some("GiveUp")
            && event.reason.as_deref() == Some(reasons::TARGET_NAMESPACE_MISSING)
    });
    assert!(told, "no event tells what was given up");
}
