//! The CRD of `ReportsServer` deleted without the finalizer by which Kubernetes waits for each of them,
//! as OLM can leave it: the reports stay, and the way back is made once the CRD is there again.

use super::ground::{Ground, LIMIT};
use crds::v1alpha1::ReportsServer;
use e2e::takeover::NAME;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use kube::{Api, CustomResourceExt as _};
use serde_json::json;

impl Ground {
    fn crds(&self) -> Api<CustomResourceDefinition> {
        Api::all(self.line.client.clone())
    }

    /// Deletes the CRD, and waits until the `ReportsServer` is being deleted with it.
    async fn delete_crd(&self) {
        let params = DeleteParams::default();
        self.crds()
            .delete(ReportsServer::crd_name(), &params)
            .await
            .unwrap();
        let begun = |object: Option<&ReportsServer>| {
            object.is_some_and(|object| object.metadata.deletion_timestamp.is_some())
        };
        let begun = await_condition(self.servers(), NAME, begun);
        tokio::time::timeout(LIMIT, begun).await.unwrap().unwrap();
    }

    /// Takes the finalizers from the CRD, which is gone then.
    async fn strip_crd(&self) {
        let strip = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let params = PatchParams::default();
        let name = ReportsServer::crd_name();
        self.crds().patch(name, &params, &strip).await.unwrap();
        let gone = |crd: Option<&CustomResourceDefinition>| crd.is_none();
        let gone = await_condition(self.crds(), name, gone);
        tokio::time::timeout(LIMIT, gone).await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_goes_on_once_the_crd_is_there_again() {
    let ground = Ground::prepare(29).await;
    let before = ground.contents().await.unwrap();
    let server = ground.servers().get(NAME).await.unwrap();
    let uid = server.metadata.uid.unwrap();
    ground.delete_crd().await;
    ground.strip_crd().await;
    ground.shows(&before).await;
    assert!(!ground.is_served_by_crds().await);
    ground.line.install_operator().await.unwrap();
    ground.server_gone(&uid).await;
    assert!(ground.is_served_by_crds().await);
    ground.shows(&before).await;
}
