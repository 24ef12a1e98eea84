//! Major upgrades of a managed database: what is read for them, and what is done that no child's
//! definition says. What follows from what is decided in [`crate::database::managed::upgrade`].

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tracing::info;

use super::validate::Validated;
use super::workload;
use crate::database::managed::upgrade::{
    self, Database, Outcome, RETIRED_ANNOTATION, Seen, Stage, UPGRADE_ANNOTATION, Volume,
};
use crate::database::managed::{CONTAINER, STOPPED_ANNOTATION};
use crate::names::Names;
use crate::said::said;

/// What could not be read or done.
#[derive(Debug, thiserror::Error)]
#[error("major upgrade of the database: cannot {doing} in namespace {namespace}: {}", said(.source))]
pub struct Error {
    doing: &'static str,
    namespace: String,
    source: kube::Error,
}

impl Error {
    fn of(doing: &'static str, namespace: &str) -> impl FnOnce(kube::Error) -> Self {
        let namespace = namespace.to_owned();
        move |source| Self {
            doing,
            namespace,
            source,
        }
    }

    /// Returns whether the kube-apiserver said that the operator may not.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        matches!(&self.source, kube::Error::Api(status) if status.code == 403)
    }
}

/// Returns the notes on all claims of the namespace. A claim that is being deleted counts until it
/// is gone.
///
/// # Errors
/// If they cannot be listed.
pub async fn volumes(client: &Client, namespace: &str) -> Result<Vec<Volume>, Error> {
    let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
    let found = claims.list_metadata(&ListParams::default()).await;
    let found = found.map_err(Error::of("list the volumes", namespace))?;
    Ok(found
        .iter()
        .map(|claim| Volume::of(&claim.metadata))
        .collect())
}

/// Returns whether an upgrade has stopped the database, which nobody but the operator starts again
/// then.
///
/// # Errors
/// If it cannot be read.
pub async fn has_stopped(client: &Client, spec: &Validated) -> Result<bool, Error> {
    if !spec.is_managed() {
        return Ok(false);
    }
    let sets = Api::<StatefulSet>::namespaced(client.clone(), &spec.namespace);
    let set = sets.get_metadata_opt(&spec.names.postgres()).await;
    let set = set.map_err(Error::of("read the StatefulSet", &spec.namespace))?;
    Ok(set.is_some_and(|set| set.annotations().contains_key(STOPPED_ANNOTATION)))
}

/// Returns how the database runs, and what was begun of an upgrade.
///
/// # Errors
/// If it cannot be read.
pub async fn seen(client: &Client, names: &Names, namespace: &str) -> Result<Seen, Error> {
    let sets = Api::<StatefulSet>::namespaced(client.clone(), namespace);
    let set = sets.get_opt(&names.postgres()).await;
    let set = set.map_err(Error::of("read the StatefulSet", namespace))?;
    let pods = list::<Pod>(
        client,
        namespace,
        &names.postgres_selector(),
        "list the pods",
    )
    .await?;
    let labels = names.upgrade_labels();
    let runs = list::<Pod>(client, namespace, &labels, "list the pods of upgrades").await?;
    let jobs = list::<Job>(client, namespace, &labels, "list the Jobs of upgrades").await?;
    Ok(Seen {
        database: database(set.as_ref(), &pods),
        image: set.as_ref().and_then(image),
        jobs: jobs.iter().map(job).collect(),
        live: runs.iter().any(is_live),
    })
}

async fn list<K>(
    client: &Client,
    namespace: &str,
    labels: &std::collections::BTreeMap<String, String>,
    doing: &'static str,
) -> Result<Vec<K>, Error>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + serde::de::DeserializeOwned
        + Clone
        + std::fmt::Debug,
{
    let labels = labels.clone().into_iter().collect();
    let api = Api::<K>::namespaced(client.clone(), namespace);
    let found = api.list(&ListParams::default().labels_from(&labels)).await;
    Ok(found.map_err(Error::of(doing, namespace))?.items)
}

/// A pod that is ending may still write.
fn database(set: Option<&StatefulSet>, pods: &[Pod]) -> Database {
    let Some(set) = set else {
        return if pods.is_empty() {
            Database::Stopped
        } else {
            Database::Unready
        };
    };
    let wanted = set
        .spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or(1);
    let status = set.status.as_ref();
    let observed = status.and_then(|status| status.observed_generation) >= set.metadata.generation;
    let none = status.is_some_and(|status| status.replicas == 0);
    if wanted == 0 && observed && none && pods.is_empty() {
        Database::Stopped
    } else if wanted > 0 && workload::is_database_ready(set) {
        Database::Ready
    } else {
        Database::Unready
    }
}

fn image(set: &StatefulSet) -> Option<String> {
    let pod = set.spec.as_ref()?.template.spec.as_ref()?;
    let container = pod
        .containers
        .iter()
        .find(|container| container.name == CONTAINER)?;
    container.image.clone()
}

fn job(job: &Job) -> upgrade::Job {
    let outcome = if workload::job_condition(job, "Complete").is_some() {
        Outcome::Succeeded
    } else if workload::job_condition(job, "Failed").is_some() {
        Outcome::Failed
    } else {
        Outcome::Running
    };
    upgrade::Job {
        name: job.name_any(),
        outcome,
    }
}

fn is_live(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

/// Takes the new volume into use where it is filled: from this note on, it is the one that counts.
/// Says whether it has.
///
/// # Errors
/// If the note cannot be written.
pub async fn commit(client: &Client, spec: &Validated) -> Result<bool, Error> {
    let managed = spec.managed();
    let upgrade = managed.and_then(|managed| managed.upgrade.as_ref());
    let Some(upgrade) = upgrade.filter(|upgrade| upgrade.stage == Stage::Copied) else {
        return Ok(false);
    };
    let from = managed.map(|managed| managed.version().to_string());
    let name = spec.names.postgres_data_of(upgrade.target.version());
    note(
        client,
        spec,
        &name,
        json!({"annotations": {UPGRADE_ANNOTATION: from}}),
    )
    .await?;
    info!(
        name = spec.names.instance(),
        claim = name,
        "the upgraded database is taken into use"
    );
    Ok(true)
}

async fn note(
    client: &Client,
    spec: &Validated,
    name: &str,
    metadata: serde_json::Value,
) -> Result<(), Error> {
    let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), &spec.namespace);
    let patch = Patch::Merge(json!({"metadata": metadata}));
    let params = PatchParams::default();
    let patched = claims.patch_metadata(name, &params, &patch).await;
    patched
        .map(drop)
        .map_err(Error::of("write a note on a volume", &spec.namespace))
}

/// Notes on the volumes of earlier versions that they are not in use, so that none is ever taken
/// for the one that is. They go with the `ReportsServer` where the one in use does.
///
/// # Errors
/// If a note cannot be written.
pub async fn retire(client: &Client, spec: &Validated) -> Result<(), Error> {
    let Some(managed) = spec.managed() else {
        return Ok(());
    };
    let owners = spec.owner.iter().filter(|_| !spec.retain_data);
    let owners: Vec<_> = owners.collect();
    for volume in &managed.present.volumes.earlier {
        if volume.retired.is_some() && volume.owned != owners.is_empty() {
            continue;
        }
        let why = volume.retired.clone().unwrap_or_else(|| {
            let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
            format!("upgraded to {} at {now}", managed.claim())
        });
        let metadata = json!({
            "annotations": {RETIRED_ANNOTATION: why},
            "ownerReferences": owners,
        });
        note(client, spec, &volume.name, metadata).await?;
    }
    Ok(())
}

/// Deletes the Jobs of upgrades that are over or not wanted any more.
///
/// # Errors
/// If one cannot be deleted; that it is gone already is as good.
pub async fn clear(client: &Client, spec: &Validated) -> Result<(), Error> {
    if !spec.managed().is_some_and(|managed| managed.present.clear) {
        return Ok(());
    }
    let namespace = &spec.namespace;
    let labels = spec.names.upgrade_labels();
    let jobs = list::<Job>(client, namespace, &labels, "list the Jobs of upgrades").await?;
    let api = Api::<Job>::namespaced(client.clone(), namespace);
    for job in jobs {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: job.uid(),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        match api.delete(&job.name_any(), &params).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            deleted => {
                deleted.map_err(Error::of("delete a Job of an upgrade", namespace))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn set(replicas: i32, status: &Value) -> StatefulSet {
        serde_json::from_value(json!({
            "metadata": {"name": "s", "generation": 2},
            "spec": {"replicas": replicas, "serviceName": "s", "selector": {}, "template": {"spec": {
                "containers": [{"name": CONTAINER, "image": "i:15"}]}}},
            "status": status,
        }))
        .unwrap()
    }

    #[rstest]
    #[case::ready(1, json!({"replicas": 1, "readyReplicas": 1, "observedGeneration": 2}), 1, Database::Ready)]
    #[case::starting(1, json!({"replicas": 1, "observedGeneration": 2}), 1, Database::Unready)]
    #[case::to_be_stopped(0, json!({"replicas": 1, "readyReplicas": 1, "observedGeneration": 1}), 1,
        Database::Unready)]
    #[case::ending(0, json!({"replicas": 0, "observedGeneration": 2}), 1, Database::Unready)]
    #[case::not_seen_yet(0, json!({"replicas": 0, "observedGeneration": 1}), 0, Database::Unready)]
    #[case::stopped(0, json!({"replicas": 0, "observedGeneration": 2}), 0, Database::Stopped)]
    fn a_database_is_stopped_when_nothing_of_it_is_left(
        #[case] replicas: i32,
        #[case] status: Value,
        #[case] pods: usize,
        #[case] expected: Database,
    ) {
        let set = set(replicas, &status);
        assert_eq!(database(Some(&set), &vec![Pod::default(); pods]), expected);
        assert_eq!(image(&set).as_deref(), Some("i:15"));
    }

    #[rstest]
    #[case(json!({"active": 1}), Outcome::Running)]
    #[case(json!({"conditions": [{"type": "FailureTarget", "status": "True"}]}), Outcome::Running)]
    #[case(json!({"conditions": [{"type": "Failed", "status": "True"}]}), Outcome::Failed)]
    #[case(json!({"conditions": [{"type": "Complete", "status": "True"}]}), Outcome::Succeeded)]
    fn a_job_has_ended_when_it_says_so(#[case] status: Value, #[case] expected: Outcome) {
        let object = serde_json::from_value(json!({"metadata": {"name": "j"}, "status": status}));
        assert_eq!(job(&object.unwrap()).outcome, expected);
    }

    #[rstest]
    #[case(json!({"phase": "Running"}), true)]
    #[case(json!({}), true)]
    #[case(json!({"phase": "Failed"}), false)]
    fn a_pod_that_is_not_known_to_have_ended_is_live(
        #[case] status: Value,
        #[case] expected: bool,
    ) {
        let pod =
            serde_json::from_value(json!({"metadata": {"name": "p"}, "status": status})).unwrap();
        assert_eq!(is_live(&pod), expected);
    }
}
