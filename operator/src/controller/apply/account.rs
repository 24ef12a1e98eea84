//! The `ServiceAccount` of the server's pods, to whose uid their tokens are bound.
//!
//! A kube-apiserver refuses a token of an account that was deleted, also where there is another of
//! that name. The kubelet keeps such a token until most of its hour is over, and the server could not
//! ask meanwhile who its clients are. So the template of the pods has the uid of their account, and
//! they are replaced with it.

use crds::names::ANNOTATION_ACCOUNT_UID;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{PodTemplateSpec, ServiceAccount};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::child::{inside, refused_to};
use super::error::Error;

/// Returns the Deployment with the uid of its account in the template: of `own`, or of the user's. A
/// template that is held as it was has one already.
///
/// # Errors
/// If the account cannot be read.
pub(super) async fn noted(
    client: &Client,
    mut deployment: Deployment,
    own: Option<&ServiceAccount>,
) -> Result<Deployment, Error> {
    let uid = match own {
        Some(own) => own.uid(),
        None => uid(client, &deployment).await?,
    };
    if let Some((uid, spec)) = uid.zip(deployment.spec.as_mut()) {
        let metadata = spec.template.metadata.get_or_insert_default();
        let annotations = metadata.annotations.get_or_insert_default();
        annotations
            .entry(ANNOTATION_ACCOUNT_UID.to_owned())
            .or_insert(uid);
    }
    Ok(deployment)
}

/// Has the pods replaced whose account is another by now, where nothing else of the Deployment is
/// applied.
///
/// # Errors
/// If the account or the Deployment cannot be read, or the Deployment not be changed.
pub(super) async fn replaced(client: &Client, deployment: &Deployment) -> Result<(), Error> {
    let api = inside(client, deployment);
    let name = deployment.name_any();
    let found = api.get_opt(&name).await;
    let found = found.map_err(|source| refused_to(deployment, source))?;
    // None of ours is without the uid, but those of a release that did not have it.
    let Some((found, known)) = found.and_then(|found| known(&found).map(|uid| (found, uid))) else {
        return Ok(());
    };
    let present = uid(client, &found).await?;
    let Some(uid) = present.filter(|uid| *uid != known) else {
        return Ok(());
    };
    let template = json!({"metadata": {"annotations": {ANNOTATION_ACCOUNT_UID: uid}}});
    let patch = Patch::Merge(json!({"spec": {"template": template}}));
    let changed = api.patch(&name, &PatchParams::default(), &patch).await;
    changed
        .map(drop)
        .map_err(|source| refused_to(deployment, source))
}

/// Returns the uid of the account that the pods run as, if it is there.
async fn uid(client: &Client, deployment: &Deployment) -> Result<Option<String>, Error> {
    let pod = template(deployment).and_then(|template| template.spec.as_ref());
    let Some(account) = pod.and_then(|pod| pod.service_account_name.as_deref()) else {
        return Ok(None);
    };
    let namespace = deployment.namespace().unwrap_or_default();
    let api = Api::<ServiceAccount>::namespaced(client.clone(), &namespace);
    let found = api.get_metadata_opt(account).await;
    let found = found.map_err(|source| Error::Account {
        account: format!("{namespace}/{account}"),
        source,
    })?;
    Ok(found.and_then(|found| found.uid()))
}

/// Returns the uid that the template has.
fn known(deployment: &Deployment) -> Option<String> {
    let metadata = template(deployment)?.metadata.as_ref()?;
    let annotations = metadata.annotations.as_ref()?;
    annotations.get(ANNOTATION_ACCOUNT_UID).cloned()
}

fn template(deployment: &Deployment) -> Option<&PodTemplateSpec> {
    Some(&deployment.spec.as_ref()?.template)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::testing::pair;

    const OLD: &str = "11111111-1111-1111-1111-111111111111";
    const NEW: &str = "22222222-2222-2222-2222-222222222222";

    fn deployment(uid: Option<&str>) -> Deployment {
        let annotations = json!({ANNOTATION_ACCOUNT_UID: uid});
        let annotations = uid.map(|_| annotations);
        serde_json::from_value(json!({
            "metadata": {"name": "prod-reports-server", "namespace": "reports"},
            "spec": {"selector": {}, "template": {
                "metadata": {"annotations": annotations},
                "spec": {"serviceAccountName": "own", "containers": []},
            }},
        }))
        .unwrap()
    }

    fn account(uid: &str) -> serde_json::Value {
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": {"name": "own", "namespace": "reports", "uid": uid}})
    }

    #[rstest]
    #[case::new(None, NEW)]
    #[case::held_as_it_was(Some(OLD), OLD)]
    #[tokio::test]
    async fn the_template_has_the_uid_of_the_account(
        #[case] before: Option<&str>,
        #[case] after: &str,
    ) {
        let (client, mut server) = pair();
        let noting = tokio::spawn({
            let deployment = deployment(before);
            async move { noted(&client, deployment, None).await }
        });
        let request = server.next().await;
        let path = "/api/v1/namespaces/reports/serviceaccounts/own";
        assert_eq!(request.path, path);
        request.answer(200, &account(NEW));
        let noted = noting.await.unwrap().unwrap();
        assert_eq!(known(&noted).as_deref(), Some(after));
    }

    #[rstest]
    #[case::another(Some(OLD), true)]
    #[case::the_same(Some(NEW), false)]
    #[case::of_an_older_release(None, false)]
    #[tokio::test]
    async fn pods_of_an_account_that_is_gone_are_replaced(
        #[case] known: Option<&str>,
        #[case] changed: bool,
    ) {
        let (client, mut server) = pair();
        let deployment = deployment(known);
        let found = serde_json::to_value(&deployment).unwrap();
        let replacing = tokio::spawn(async move { replaced(&client, &deployment).await });
        server.next().await.answer(200, &found);
        if known.is_some() {
            server.next().await.answer(200, &account(NEW));
        }
        if changed {
            let request = server.next().await;
            assert_eq!(request.method, "PATCH");
            let template = &request.body["spec"]["template"];
            let annotations = &template["metadata"]["annotations"];
            assert_eq!(annotations, &json!({ANNOTATION_ACCOUNT_UID: NEW}));
            request.answer(200, &found);
        }
        replacing.await.unwrap().unwrap();
        assert!(server.next_if_any().await.is_none());
    }
}
