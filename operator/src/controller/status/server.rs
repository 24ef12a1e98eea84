//! The finding about the server: whether a client is answered.

use crds::v1alpha1::reasons;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;

use super::components::missing;
use super::conditions::{Finding, Is};
use crate::apiservice::is_available;
use crate::controller::apply::Applied;
use crate::controller::found::{Found, Part};
use crate::controller::validate::Validated;
use crate::controller::workload;

/// Returns the server that was applied.
pub fn as_applied(spec: &Validated, applied: &Applied) -> Finding {
    let pods = &applied.pods[..];
    let finding = reached(&applied.deployment, pods, &applied.control_api);
    let managed = applied.managed.as_ref().filter(|_| !spec.moves());
    let managed = managed.map(|managed| (&managed.stateful_set, &managed.pods[..]));
    with_database(finding, managed)
}

/// Returns the finding about a server that has its reports in a database of ours with these pods. Its
/// own pods stay ready without it, and answer what they have in memory.
fn with_database(finding: Finding, database: Option<(&StatefulSet, &[Pod])>) -> Finding {
    let away = database.filter(|(set, _)| !workload::is_database_ready(set));
    match away {
        Some((set, pods)) if finding.is == Is::True => Finding::no(
            reasons::CONTROL_API_UNAVAILABLE,
            format!(
                "without its database the server answers only from memory: {}",
                workload::why_database_not_ready(set, pods)
            ),
        ),
        _ => finding,
    }
}

/// Pods ready, and the control API answering through the aggregator.
fn reached(deployment: &Deployment, pods: &[Pod], control_api: &APIService) -> Finding {
    if !workload::is_serving(deployment) {
        return Finding::no(
            reasons::PODS_NOT_READY,
            workload::why_not_ready(deployment, pods),
        );
    }
    if is_available(control_api) {
        return Finding::yes(
            reasons::AS_EXPECTED,
            "the server answers through the kube-apiserver",
        );
    }
    let status = control_api.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let available = conditions
        .into_iter()
        .flatten()
        .find(|c| c.type_ == "Available");
    let why = available.and_then(|condition| condition.message.clone());
    Finding::no(
        reasons::CONTROL_API_UNAVAILABLE,
        format!(
            "the kube-apiserver does not reach the server yet{}",
            why.map_or_else(String::new, |why| format!(": {why}"))
        ),
    )
}

/// Returns the server where nothing is repaired but what leads to it.
pub fn as_found(spec: &Validated, found: &Found) -> Finding {
    let unkept = found.unkept.iter().filter(|unkept| unkept.foreign);
    let mut foreign = unkept.filter(|unkept| unkept.part == Part::Server);
    if let Some(foreign) = foreign.next() {
        return Finding::no(reasons::FOREIGN_OBJECT, foreign.message.clone());
    }
    match &found.deployment {
        Some(deployment) => {
            let finding = reached(deployment, &found.pods, &found.control_api);
            let managed = spec.is_managed() && !spec.moves();
            let database = found.stateful_set.as_ref().filter(|_| managed);
            with_database(finding, database.map(|set| (set, &[][..])))
        }
        None => Finding::no(
            reasons::PODS_NOT_READY,
            missing("Deployment", &spec.names.server()),
        ),
    }
}
