//! Volumes: a claim's size can be asked for, and refused.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::PatchParams;
use kube::{Client, ResourceExt};

use super::child::{forced, inside, patch, refuse_foreign};
use super::error::Error;
use super::refused::volume_field;
use crate::database::managed::quantity;

/// A claim as the kube-apiserver returned it.
#[derive(Clone, Debug)]
pub struct Volume {
    /// The claim.
    pub claim: PersistentVolumeClaim,
    /// The reason why it does not get the size that is wanted, and what to do.
    pub refused: Option<String>,
}

/// Applies a claim. Where its storage class does not let it grow, or it is larger than what is wanted,
/// it keeps its size and the rest is applied: a database that is too small is better than none.
///
/// # Errors
/// If it is refused for another reason.
pub async fn apply(client: &Client, claim: PersistentVolumeClaim) -> Result<Volume, Error> {
    write(client, claim, &forced()).await
}

/// Tries to do the same; nothing is stored.
///
/// # Errors
/// If applying it would fail.
pub async fn probe(client: &Client, claim: &PersistentVolumeClaim) -> Result<(), Error> {
    let params = forced().dry_run();
    write(client, claim.clone(), &params).await.map(drop)
}

async fn write(
    client: &Client,
    claim: PersistentVolumeClaim,
    params: &PatchParams,
) -> Result<Volume, Error> {
    let api = inside(client, &claim);
    refuse_foreign(&api, &claim).await?;
    let error = match patch(&api, &claim, params).await {
        Ok(claim) => {
            return Ok(Volume {
                claim,
                refused: None,
            });
        }
        Err(error) => error,
    };
    let Error::Apply {
        source: kube::Error::Api(status),
        ..
    } = &error
    else {
        return Err(error);
    };
    // The admission plugin for resizing answers 403, the validation 422.
    if !matches!(status.code, 403 | 422) {
        return Err(error);
    }
    let said = status.message.clone();
    let present = api.get_opt(&claim.name_any()).await.ok().flatten();
    let Some(present) = present.filter(|present| size(present) != size(&claim)) else {
        return Err(error);
    };
    let refused = advice(&claim, &present, &said);
    let mut same = claim;
    if let (Some(wanted), Some(present)) = (same.spec.as_mut(), present.spec) {
        wanted.resources = present.resources;
    }
    Ok(Volume {
        claim: patch(&api, &same, params).await?,
        refused: Some(refused),
    })
}

/// Returns why a claim keeps the size that it has, and what to do.
fn advice(wanted: &PersistentVolumeClaim, present: &PersistentVolumeClaim, said: &str) -> String {
    if let (Some(wanted_size), Some(present_size)) = (size(wanted), size(present))
        && quantity::bytes(wanted_size) < quantity::bytes(present_size)
    {
        let name = wanted.name_any();
        let (field, less, size) = (volume_field(&name), &wanted_size.0, &present_size.0);
        return format!(
            "{field}.size: {less} is less than the {size} of PersistentVolumeClaim {name}, and a \
             volume cannot be made smaller; set it to {size} or more"
        );
    }
    format!("{said}; use a storage class with allowVolumeExpansion, or set the size back")
}

/// Returns what a claim asks for.
fn size(claim: &PersistentVolumeClaim) -> Option<&Quantity> {
    let resources = claim.spec.as_ref()?.resources.as_ref()?;
    resources.requests.as_ref()?.get("storage")
}
