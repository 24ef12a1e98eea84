//! Major upgrades of a managed database, as they are read. [`crate::database::managed::upgrade`]
//! decides.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::workload;
use crate::database::managed::CONTAINER;
use crate::database::managed::upgrade::{self, Database, Outcome, Seen, Volume};
use crate::names::Names;
use crate::said::{is_forbidden, said};

/// The error of a step of an upgrade.
#[derive(Debug, thiserror::Error)]
#[error("major upgrade of the database: cannot {doing} in namespace {namespace}: {}", said(.source))]
pub struct Error {
    doing: &'static str,
    namespace: String,
    source: kube::Error,
}

impl Error {
    pub(super) fn of(doing: &'static str, namespace: &str) -> impl FnOnce(kube::Error) -> Self {
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
        is_forbidden(&self.source)
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

/// Returns how the database runs, and what was begun of an upgrade.
///
/// # Errors
/// If it cannot be read.
pub async fn seen(
    client: &Client,
    names: &Names,
    namespace: &str,
    set: Option<&StatefulSet>,
) -> Result<Seen, Error> {
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
        database: database(set, &pods),
        image: set.and_then(image),
        jobs: jobs.iter().map(job).collect(),
        live: runs.iter().any(is_live),
    })
}

pub(super) async fn list<K>(
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
