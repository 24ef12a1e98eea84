//! The application of the server's `PodDisruptionBudget`, which has one bound.

use crds::names::FIELD_MANAGER;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::child::{inside, patch, refuse_foreign};
use super::error::Error;

/// The bounds, of which an object has one.
const BOUNDS: [&str; 2] = ["minAvailable", "maxUnavailable"];

/// Applies the budget, where there is to be one. A bound that somebody else has set is refused beside
/// ours, and server-side apply leaves it there: it is taken away then.
///
/// # Errors
/// If it is refused all the same, or somebody else's.
pub(super) async fn apply(
    client: &Client,
    budget: Option<&PodDisruptionBudget>,
    params: &PatchParams,
) -> Result<(), Error> {
    let Some(budget) = budget else {
        return Ok(());
    };
    let api = inside(client, budget);
    refuse_foreign(&api, budget).await?;
    let refused = match patch(&api, budget, params).await {
        Err(refused) if refused.is_invalid() => refused,
        applied => return applied.map(drop),
    };
    match bound(&api, budget, params.dry_run).await {
        Ok(_) => Ok(()),
        Err(error) => {
            tracing::debug!(%error, "the bound of the budget cannot be set");
            Err(refused)
        }
    }
}

/// Sets our bound, and no other one.
async fn bound(
    api: &Api<PodDisruptionBudget>,
    budget: &PodDisruptionBudget,
    dry_run: bool,
) -> kube::Result<PodDisruptionBudget> {
    let params = PatchParams {
        dry_run,
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let only = Patch::Merge(json!({"spec": bounds(&json!(budget.spec))}));
    api.patch(&budget.name_any(), &params, &only).await
}

/// Returns both bounds, with `null` for the one that is not ours.
fn bounds(spec: &Value) -> Value {
    let bounds = BOUNDS.map(|bound| (bound.to_owned(), spec[bound].clone()));
    Value::Object(bounds.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_bound_is_taken_away() {
        let spec = json!({"minAvailable": 1, "selector": {}});
        let expected = json!({"minAvailable": 1, "maxUnavailable": null});
        assert_eq!(bounds(&spec), expected);
    }
}
