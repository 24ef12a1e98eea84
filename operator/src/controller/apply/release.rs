//! The `APIService`s of a server that will not come back.

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::{Api, Client, ResourceExt};

use super::error::Error;
use crate::apiservice::{Holder, ServiceRef, holder};

/// Deletes every `APIService` that leads to `service`, each only in the state that was read; the
/// kube-apiserver creates anew those of versions that a CRD serves. Returns their names.
///
/// # Errors
/// If they cannot be listed, or one cannot be deleted.
pub async fn release(client: &Client, service: &ServiceRef) -> Result<Vec<String>, Error> {
    let api = Api::<APIService>::all(client.clone());
    let failed = |source| Error::Release { source };
    let all = api.list(&ListParams::default()).await.map_err(failed)?;
    let mut released = Vec::new();
    for found in all.items {
        if holder(Some(&found), service) != Holder::Ours {
            continue;
        }
        let name = found.name_any();
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: found.uid(),
                resource_version: found.resource_version(),
            }),
            ..DeleteParams::background()
        };
        match api.delete(&name, &params).await {
            Ok(_) => released.push(name),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(released)
}
