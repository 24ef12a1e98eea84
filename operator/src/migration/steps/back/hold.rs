//! The hold: the rest is written to etcd while requests wait.

use std::collections::HashMap;

use crds::control::{GateSpec, GateState};
use crds::v1alpha1::reasons;
use futures::future::try_join_all;
use kube::runtime::events::EventType;

use super::error::{BackError, HOLD};
use super::writers::{resumed, total};
use super::{Back, Doors, FOLLOW, release_gates};
use crate::migration::cluster::{door, operations};
use crate::migration::observe::state::Resource;
use crate::migration::steps::writeback::Writer;

impl Back<'_> {
    /// Holds requests and writes the rest. Where that fails, clients are served again rather than
    /// kept waiting.
    pub(super) async fn hold(
        &self,
        writers: &mut [Writer<'_>],
        doors: &Doors,
    ) -> Result<(), BackError> {
        let (cx, o) = (self.cx, self.o);
        let held = tokio::time::timeout(HOLD, self.write_rest(writers, doors)).await;
        let error = match held {
            // From here on the way leads to the CRDs only, whoever goes it: where it is not known
            // which gates say so, none is opened.
            Ok(Ok(())) => return release_gates(cx, o, self.endpoints).await,
            Ok(Err(error)) => error,
            Err(_) => BackError::Late,
        };
        operations::set_gates(cx, &o.resources, GateState::Open, None).await?;
        cx.event(
            EventType::Warning,
            reasons::ROLLING_BACK,
            &format!("{}: {error}", cx.target.group),
        );
        Err(error)
    }

    async fn write_rest(&self, writers: &mut [Writer<'_>], doors: &Doors) -> Result<(), BackError> {
        let (cx, o) = (self.cx, self.o);
        let hold = GateSpec {
            state: GateState::Held,
            ..GateSpec::default()
        };
        let gates = operations::move_gates(cx, &o.resources, &hold).await?;
        let names = o.resources.iter().map(Resource::name);
        let frozen: HashMap<&str, u64> = names
            .zip(&gates)
            .filter_map(|(name, gate)| Some((name, version_of(gate)?)))
            .collect();
        let newest = frozen.values().copied().max().unwrap_or_default();
        tokio::try_join!(self.raise_revision(newest), follow(writers, &frozen))?;
        let each = writers.iter_mut().map(Writer::last_pass);
        total(try_join_all(each).await?)?;
        if resumed(writers) != doors.resumed {
            return Err(BackError::Cut);
        }
        let (changed, ours) = tokio::try_join!(
            door::changed_since(cx, &doors.opened),
            operations::are_ours(cx, o.ours()),
        )?;
        if let Some(crd) = changed {
            return Err(BackError::CrdChanged { crd });
        }
        if ours {
            Ok(())
        } else {
            Err(BackError::TakenAway)
        }
    }
}

/// Waits until all changes of each resource are known, up to the version at which its own gate was
/// closed to writes. Its watch does not tell of later writes to other resources.
async fn follow(writers: &[Writer<'_>], frozen: &HashMap<&str, u64>) -> Result<(), BackError> {
    let each = writers.iter().map(|writer| {
        let version = frozen.get(writer.resource_name()).copied();
        writer.until(version.unwrap_or_default(), FOLLOW)
    });
    try_join_all(each).await?;
    Ok(())
}

fn version_of(gate: &GateSpec) -> Option<u64> {
    gate.resource_version.as_deref()?.parse().ok()
}
