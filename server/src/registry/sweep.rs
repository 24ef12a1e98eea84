//! Objects whose namespace is gone.
//!
//! The namespace controller empties a namespace before it removes it, but it cannot while this
//! server is away: the namespace then waits, unless its finalizer is taken by force or the group is
//! not registered. The objects that are left would show up again in a new namespace of the same
//! name. So the objects of namespaces that do not exist are looked for from time to time, and
//! deleted.

use std::sync::Arc;
use std::time::Duration;

use crds::control::GateState;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use serde_json::Value;
use storage::cache::{Resource, Snapshot};
use storage::model::StoredObject;
use storage::store::{Store, Write, WriteError};

use super::Object;
use super::strategy::delete::{self, Plan};
use crate::cluster::{NamespaceLookup, NamespacePhase};

/// Pause before the first sweep: right after a start there is more urgent work.
const FIRST: Duration = Duration::from_mins(1);
/// Pause between sweeps.
const INTERVAL: Duration = Duration::from_mins(10);
/// Most objects of one resource that one sweep deletes; the rest is left to the next.
const MAX_DELETIONS: usize = 1000;

/// The counter of deleted objects.
#[derive(Clone, Default)]
pub struct SweepMetrics {
    deleted: Family<ResourceLabel, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabel {
    resource: String,
}

impl SweepMetrics {
    /// Registers the counter.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "orphans_deleted",
            "Objects deleted because their namespace does not exist, by resource",
            self.deleted.clone(),
        );
    }

    fn count(&self, resource: &Resource, deleted: u64) {
        let resource = resource.def().resource.to_string();
        self.deleted
            .get_or_create(&ResourceLabel { resource })
            .inc_by(deleted);
    }
}

/// Sweeps for as long as it is polled. It is to be started once the namespaces are known.
pub async fn run(store: Store, namespaces: Arc<dyn NamespaceLookup>, metrics: SweepMetrics) {
    tokio::time::sleep(FIRST).await;
    loop {
        once(&store, namespaces.as_ref(), &metrics).await;
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Deletes the objects of missing namespaces, in resources that are served; returns their number.
///
/// A namespace counts as missing only when the kube-apiserver was asked and said so. It is asked
/// after the objects were read: the objects existed while the namespace did not, so they are not
/// those of a namespace that is made in the meantime.
pub async fn once(store: &Store, namespaces: &dyn NamespaceLookup, metrics: &SweepMetrics) -> u64 {
    let mut total = 0;
    for resource in store.resources() {
        if !resource.def().namespaced || resource.record().gate.state != GateState::Open {
            continue;
        }
        let snapshot = resource.snapshot();
        let mut left = MAX_DELETIONS;
        for namespace in snapshot.namespaces() {
            match namespaces.phase(namespace).await {
                Ok(NamespacePhase::Missing) => {}
                Ok(_) => continue,
                Err(error) => {
                    tracing::debug!(%error, "sweep: leaving the namespace's objects alone");
                    continue;
                }
            }
            let deleted = empty(store, &resource, &snapshot, namespace, &mut left).await;
            metrics.count(&resource, deleted);
            total += deleted;
        }
    }
    total
}

/// Deletes the objects of a missing namespace in `snapshot`, as long as `left` is not used up.
async fn empty(
    store: &Store,
    resource: &Resource,
    snapshot: &Snapshot,
    namespace: &str,
    left: &mut usize,
) -> u64 {
    let name = &resource.def().resource;
    let mut deleted = 0;
    for object in snapshot.range(Some(namespace), None) {
        if *left == 0 {
            break;
        }
        *left -= 1;
        match delete(store, resource, object).await {
            Ok(true) => deleted += 1,
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(resource = %name, namespace, %error, "sweep: trying again later");
                break;
            }
        }
    }
    if deleted > 0 {
        tracing::info!(
            resource = %name,
            namespace,
            deleted,
            "deleted objects whose namespace does not exist"
        );
    }
    deleted
}

/// Deletes an object as a client's delete would; returns false when it was changed or deleted
/// meanwhile, or waits for its finalizers already.
async fn delete(
    store: &Store,
    resource: &Resource,
    object: &StoredObject,
) -> Result<bool, WriteError> {
    let fields: Object = match object.value()? {
        Value::Object(fields) => fields,
        _ => return Ok(false),
    };
    let (key, expected_rv) = (object.key.clone(), Some(object.rv));
    let write = match delete::plan(&fields, None, jiff::Timestamp::now()) {
        Plan::Mark(marked) if marked == fields => return Ok(false),
        Plan::Mark(marked) => Write::Update {
            key,
            expected_rv,
            object: Value::Object(marked),
        },
        Plan::Remove => Write::Delete {
            key,
            expected_uid: None,
            expected_rv,
            last: Value::Object(fields),
        },
    };
    match store.write(&resource.def().resource, &write).await {
        Ok(_) => Ok(true),
        Err(WriteError::NotFound(_) | WriteError::Conflict { .. }) => Ok(false),
        Err(other) => Err(other),
    }
}
