//! Holds that nobody ends: the client gave a group back to its CRDs and died with requests held.
//!
//! The server has everything that etcd may have by then, so it serves again. A client that comes
//! back late is refused, as by any other successor: it could say that etcd has everything although
//! the server has taken writes meanwhile. A `released` gate stays held: its way leads to the CRD.
//! So does a gate that was never open: etcd has its objects, and the server may lack some.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crds::control::{GateSpec, GateState};
use storage::cache::Resource;
use storage::model::{GateStatus, GroupResource};
use storage::store::{Store, StoreError};
use tokio::time::Instant;

/// The longest time of a hold on the way back. The operator ends its own after 4 s.
pub const LIMIT: Duration = Duration::from_secs(5);
/// Number of looks within the limit.
const LOOKS: u32 = 20;

/// Ends the holds of `store` that have lasted for `limit`, for ever. Each server does so, by its
/// own clock; the store accepts it from one of them.
pub async fn end_orphaned(store: Store, limit: Duration) {
    let mut known: HashMap<GroupResource, Hold> = HashMap::new();
    loop {
        tokio::time::sleep(limit / LOOKS).await;
        for (group, resources) in groups(&store) {
            if !follow(&mut known, &resources, limit) {
                continue;
            }
            match open(&store, &resources).await {
                Ok(opened) if opened > 0 => tracing::warn!(
                    group,
                    opened,
                    "requests were held for too long and are served again: nobody ended the hold"
                ),
                Ok(_) => {}
                // Another server does the same, or the operator is back.
                Err(error) => tracing::info!(group, %error, "a hold was not ended"),
            }
        }
    }
}

/// One hold, as this server has seen it.
struct Hold {
    /// The name of the hold: the time at which it began by the store's clock.
    began: Option<jiff::Timestamp>,
    seen: Instant,
}

fn groups(store: &Store) -> BTreeMap<String, Vec<Arc<Resource>>> {
    let mut groups: BTreeMap<String, Vec<Arc<Resource>>> = BTreeMap::new();
    for resource in store.resources() {
        let group = resource.def().resource.group.to_string();
        groups.entry(group).or_default().push(resource);
    }
    groups
}

/// Returns whether some resource of a group is held for too long.
fn follow(
    known: &mut HashMap<GroupResource, Hold>,
    resources: &[Arc<Resource>],
    limit: Duration,
) -> bool {
    let mut late = false;
    for resource in resources {
        let (name, gate) = (&resource.def().resource, resource.record().gate);
        if !is_back(&gate) {
            known.remove(name);
            continue;
        }
        let hold = known.entry(name.clone()).or_insert_with(|| Hold {
            began: gate.held_since,
            seen: Instant::now(),
        });
        if hold.began != gate.held_since {
            (hold.began, hold.seen) = (gate.held_since, Instant::now());
        }
        late |= hold.seen.elapsed() >= limit;
    }
    late
}

/// Returns whether the gate is held on the way back and the way can still be left.
fn is_back(gate: &GateStatus) -> bool {
    gate.state == GateState::Held && gate.serves_reads()
}

/// Opens the held gates of a group; returns their number.
async fn open(store: &Store, resources: &[Arc<Resource>]) -> Result<usize, StoreError> {
    let mut tokens = Vec::new();
    for resource in resources {
        // All of them first: from then on nobody else releases one of them while another opens.
        let name = &resource.def().resource;
        tokens.push(store.take_fence(name).await?);
    }
    if resources
        .iter()
        .any(|resource| resource.record().gate.released)
    {
        return Ok(0);
    }
    let mut opened = 0;
    for (resource, token) in resources.iter().zip(tokens) {
        if !is_back(&resource.record().gate) {
            continue;
        }
        let spec = GateSpec {
            state: GateState::Open,
            fence: Some(token),
            ..GateSpec::default()
        };
        store.set_gate(&resource.def().resource, spec, None).await?;
        opened += 1;
    }
    Ok(opened)
}
