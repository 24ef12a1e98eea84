//! Volumes: a claim's size can be asked for, and refused.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Client, ResourceExt};

use super::error::Error;
use super::{inside, one};

/// A claim as the kube-apiserver returned it.
#[derive(Clone, Debug)]
pub struct Volume {
    /// The claim.
    pub claim: PersistentVolumeClaim,
    /// Why it does not grow to the size that is wanted.
    pub refused: Option<String>,
}

/// Applies a claim. Where its storage class does not let it grow, it keeps its size and the rest is
/// applied: a database that is too small is better than none.
///
/// # Errors
/// If it is refused for another reason.
pub async fn apply(client: &Client, claim: PersistentVolumeClaim) -> Result<Volume, Error> {
    let api = inside(client, &claim);
    let error = match one(&api, &claim).await {
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
    let refused = status.message.clone();
    let present = api.get_opt(&claim.name_any()).await.ok().flatten();
    let Some(present) = present.filter(|present| size(present) != size(&claim)) else {
        return Err(error);
    };
    let mut same = claim;
    if let (Some(wanted), Some(present)) = (same.spec.as_mut(), present.spec) {
        wanted.resources = present.resources;
    }
    Ok(Volume {
        claim: one(&api, &same).await?,
        refused: Some(refused),
    })
}

/// Returns what a claim asks for.
fn size(claim: &PersistentVolumeClaim) -> Option<&str> {
    let resources = claim.spec.as_ref()?.resources.as_ref()?;
    let size = resources.requests.as_ref()?.get("storage")?;
    Some(size.0.as_str())
}
