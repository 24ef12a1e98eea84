//! The account of the server's pods, taken away by hand. A kube-apiserver answers to the token of an
//! account that is gone no more, so the server cannot ask who may read.

use std::fmt::Debug;
use std::time::Duration;

use crds::names;
use crds::names::ANNOTATION_ACCOUNT_UID;
use e2e::takeover::{NAME, OPERATOR_NAMESPACE, TARGET_NAMESPACE, is_ready};
use http::Request;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{AGAIN, Ground, KIND, PAUSE};

/// Longest time until clients are served again: pods are replaced one by one, on a busy machine.
const SERVED_AGAIN: Duration = Duration::from_mins(3);

/// It is made again, and the pods with it, also where nothing else is carried out.
pub async fn is_made_again_with_its_pods(ground: &Ground, reports: usize) {
    let client = || ground.line.client.clone();
    let accounts: Api<ServiceAccount> = Api::namespaced(client(), TARGET_NAMESPACE);
    let name = names::server(NAME);
    let old = accounts.get(&name).await.unwrap().uid();
    accounts
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    let again = async {
        while !(pods_have_another_account(ground, old.as_deref()).await
            && shown_to_the_operator(ground).await == Some(reports))
        {
            tokio::time::sleep(PAUSE).await;
        }
    };
    let again = tokio::time::timeout(SERVED_AGAIN, again).await;
    again.expect("clients are served again");
    ground.follow("ready", is_ready).await;
}

/// The bindings of the server in the cluster and in kube-system come back.
pub async fn is_bound_again(ground: &Ground) {
    let bound: Api<ClusterRoleBinding> = Api::all(ground.line.client.clone());
    let readers: Api<RoleBinding> = Api::namespaced(ground.line.client.clone(), "kube-system");
    assert_eq!(comes_back(&bound).await, 2);
    assert_eq!(comes_back(&readers).await, 1);
}

/// Deletes all objects of the `ReportsServer` of a kind, and waits until there are as many new ones.
/// Returns their number.
async fn comes_back<K>(api: &Api<K>) -> usize
where
    K: kube::Resource + Clone + Debug + DeserializeOwned,
{
    let ours = ListParams::default().labels(&format!("{}={NAME}", names::LABEL_OWNER));
    let uids = async || {
        let found = api.list_metadata(&ours).await.unwrap().items;
        found
            .iter()
            .filter_map(ResourceExt::uid)
            .collect::<Vec<_>>()
    };
    let before = uids().await;
    for object in api.list_metadata(&ours).await.unwrap() {
        let deleted = api
            .delete(&object.name_any(), &DeleteParams::default())
            .await;
        deleted.unwrap();
    }
    let again = async {
        loop {
            let now = uids().await;
            if now.len() == before.len() && !now.iter().any(|uid| before.contains(uid)) {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let again = tokio::time::timeout(AGAIN, again).await;
    again.expect("what was deleted comes back");
    before.len()
}

/// Returns whether all pods run as an account that is there, and is not `old`.
async fn pods_have_another_account(ground: &Ground, old: Option<&str>) -> bool {
    let client = || ground.line.client.clone();
    let accounts: Api<ServiceAccount> = Api::namespaced(client(), TARGET_NAMESPACE);
    let account = accounts.get_opt(&names::server(NAME)).await.unwrap();
    let Some(new) = account.and_then(|account| account.uid()) else {
        return false;
    };
    let pods: Api<Pod> = Api::namespaced(client(), TARGET_NAMESPACE);
    let server = format!("{}=server", names::LABEL_APP_COMPONENT);
    let pods = pods.list(&ListParams::default().labels(&server)).await;
    let mut pods = pods.unwrap().items;
    // Those that end may take a minute for it.
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    let noted = |pod: &Pod| pod.annotations().get(ANNOTATION_ACCOUNT_UID).cloned();
    Some(&*new) != old
        && !pods.is_empty()
        && pods.iter().all(|pod| noted(pod).as_ref() == Some(&new))
}

/// Returns the reports that the operator is shown, of whose rights the server has to ask; none where it is refused.
async fn shown_to_the_operator(ground: &Ground) -> Option<usize> {
    let account = format!("system:serviceaccount:{OPERATOR_NAMESPACE}:reports-server-operator");
    let request = Request::get(KIND.path(None))
        .header("Impersonate-User", account)
        .header("Impersonate-Group", "system:authenticated")
        .body(Vec::new())
        .unwrap();
    let list = ground.line.client.request::<Value>(request).await.ok()?;
    list["items"].as_array().map(Vec::len)
}
