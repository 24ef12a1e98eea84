//! Step 5: the group as its clients see it, for a while after the switch.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::apiservice;
use crate::migration::cluster::operations;
use crate::migration::cluster::wire::{Wire, collection, query};
use crate::migration::context::Cx;
use crate::migration::observe::state::Observed;

/// Pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest list of one object; a longer one counts as a failure.
const SLOW: Duration = Duration::from_secs(5);
/// The time of failing looks, without a good one between them, that is a breach. A server that is
/// restarted or moved to another node is back before that.
const BREACH: Duration = Duration::from_mins(1);

/// The finding that the API is unhealthy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("every check failed for {} s; the last error: {why}", BREACH.as_secs())]
pub struct Breach {
    /// The result of the last look.
    pub why: String,
}

/// Looks until `until`, and on until a look is good. The time that is left is measured once: a
/// clock that is set meanwhile makes it neither longer nor shorter.
///
/// # Errors
/// [`Breach`] as soon as there is one.
pub async fn run(cx: &Cx, o: &Observed, until: Timestamp) -> Result<(), Breach> {
    let mut failing = None::<Instant>;
    let left = Duration::try_from(until.duration_since(o.now)).unwrap_or_default();
    let begun = Instant::now();
    loop {
        // What the operator can put right is no breach.
        if let Err(error) = operations::mend(cx, o).await {
            tracing::warn!(group = cx.target.group, %error, "soak: cannot correct the APIServices");
        }
        match look(cx, o).await {
            Ok(()) if begun.elapsed() >= left => return Ok(()),
            Ok(()) => failing = None,
            Err(_) if is_taken_away(cx, o).await => return Ok(()),
            Err(why) => {
                let since = *failing.get_or_insert_with(Instant::now);
                tracing::warn!(group = cx.target.group, why, "soak");
                if since.elapsed() >= BREACH {
                    return Err(Breach { why });
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns whether an APIService leads to the server no more: it is taken back, and says nothing of
/// the server's health.
async fn is_taken_away(cx: &Cx, o: &Observed) -> bool {
    let ours = operations::are_ours(cx, o.ours()).await;
    matches!(ours, Ok(false))
}

/// Looks once at every resource and every APIService.
///
/// # Errors
/// The finding, in words.
pub async fn look(cx: &Cx, o: &Observed) -> Result<(), String> {
    for version in &o.versions {
        let name = apiservice::name(&cx.target.group, &version.name);
        let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}");
        let reply = cx.wire.get(&path).await.map_err(|e| e.to_string())?;
        let found = reply.json().map_err(|e| e.to_string())?;
        if !apiservice::is_available(&found) {
            return Err(format!("APIService {name} is not Available"));
        }
    }
    for resource in &o.resources {
        let Some(version) = resource.stored.status.versions.first() else {
            continue;
        };
        let path = collection(&cx.target.group, version, resource.plural());
        answers(&cx.wire, &query(&path, &[("limit", "1")])).await?;
    }
    Ok(())
}

async fn answers(wire: &Wire, uri: &str) -> Result<(), String> {
    let begun = Instant::now();
    let reply = tokio::time::timeout(SLOW, wire.get(uri)).await;
    match reply {
        Ok(Ok(reply)) if reply.is_ours() => {
            tracing::debug!(uri, took = ?begun.elapsed(), "soak");
            Ok(())
        }
        Ok(Ok(_)) => Err(format!("{uri} is not answered by the server")),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("{uri} took longer than {} s", SLOW.as_secs())),
    }
}
