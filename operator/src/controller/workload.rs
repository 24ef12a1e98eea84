//! The check whether the pods of server and database serve, and the reason where they do not, in
//! the words of whoever knows best.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod, PodTemplateSpec};
use kube::ResourceExt;

use crate::database::between::home;
use crate::database::moving::{FLAG, VARIABLE};

/// Label of a pod with the template that it is of.
const REVISION_LABEL: &str = "controller-revision-hash";
/// The reasons for which a container waits in the ordinary course.
const ORDINARY: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// The codes of containers that were killed, by SIGKILL and SIGTERM: their last words do not tell of it.
const KILLED: [i32; 2] = [137, 143];
/// The kubelet's reason for an end with a code other than 0, whatever caused it.
const NO_REASON: &str = "Error";
/// The words of the scheduler for nodes that a pod cannot have for what its specification asks for.
const NO_NODE: [&str; 3] = [
    "node affinity/selector",
    "untolerated taint",
    "Insufficient",
];
/// The number of lines that say why a container ended: `pg_restore` has an error, a detail, a hint, the
/// statement, and whoever writes to it the end of the pipe.
const LAST_LINES: usize = 6;

/// Returns whether the pods of the present template serve.
#[must_use]
pub fn is_ready(deployment: &Deployment) -> bool {
    let Some(status) = &deployment.status else {
        return false;
    };
    let current = status.observed_generation >= deployment.metadata.generation;
    let wanted = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or(1);
    // None is wanted while a backup is restored; that is not what serves.
    current
        && wanted > 0
        && status.updated_replicas.unwrap_or(0) >= wanted
        && status.available_replicas.unwrap_or(0) >= wanted
}

/// Returns whether enough pods serve for clients to be answered: of several, one of any template is
/// enough, as during a rolling update or when a node is lost.
#[must_use]
pub fn is_serving(deployment: &Deployment) -> bool {
    let counts = |deployment: &Deployment| {
        let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas);
        let available = deployment
            .status
            .as_ref()
            .and_then(|status| status.available_replicas);
        (wanted.unwrap_or(1), available.unwrap_or(0))
    };
    let (wanted, available) = counts(deployment);
    is_ready(deployment) || (wanted > 1 && available > 0)
}

/// Returns whether no pod of any template serves.
#[must_use]
pub fn is_away(deployment: &Deployment) -> bool {
    let status = deployment.status.as_ref();
    let available = status.and_then(|status| status.available_replicas);
    available.unwrap_or(0) == 0
}

/// Returns whether the server that runs keeps its reports in SQLite.
#[must_use]
pub fn is_embedded(deployment: &Deployment) -> bool {
    let template = deployment.spec.as_ref().map(|spec| &spec.template);
    template.is_some_and(|template| has_flag(template, "--database="))
}

/// Returns whether a server of this template finds out where to move the reports to.
#[must_use]
pub fn hears_of_moves(template: &PodTemplateSpec) -> bool {
    has_flag(template, FLAG) || has_variable(template, VARIABLE)
}

/// Returns whether a server of this template, which is on PostgreSQL, has a file to which the reports
/// can be moved.
#[must_use]
pub fn has_file(template: &PodTemplateSpec) -> bool {
    has_variable(template, home::VARIABLE)
}

fn has_variable(template: &PodTemplateSpec, name: &str) -> bool {
    let containers = template.spec.iter().flat_map(|pod| &pod.containers);
    let mut variables = containers.flat_map(|container| container.env.iter().flatten());
    variables.any(|variable| variable.name == name)
}

fn has_flag(template: &PodTemplateSpec, flag: &str) -> bool {
    let containers = template.spec.iter().flat_map(|pod| &pod.containers);
    let mut args = containers.flat_map(|container| container.args.iter().flatten());
    args.any(|arg| arg.starts_with(flag))
}

/// Returns whether only pods of the present template are left, and serve.
#[must_use]
pub fn is_rolled_out(deployment: &Deployment) -> bool {
    let status = deployment.status.as_ref();
    let only = status.is_some_and(|status| status.replicas == status.updated_replicas);
    is_ready(deployment) && only
}

/// Returns why not: a container's last words, else what keeps a pod from its node, else what the
/// Deployment says, else that the previous pod has to end first.
#[must_use]
pub fn why_not_ready(deployment: &Deployment, pods: &[Pod]) -> String {
    let name = deployment.name_any();
    let none = deployment.spec.as_ref().and_then(|spec| spec.replicas) == Some(0);
    if none {
        return format!("Deployment {name} is scaled to 0");
    }
    pod_trouble(pods)
        .or_else(|| deployment_trouble(deployment))
        .or_else(|| pods.iter().find_map(ending))
        .unwrap_or_else(|| format!("the pods of Deployment {name} are not ready yet"))
}

/// Returns whether the database's pod answers queries.
#[must_use]
pub fn is_database_ready(stateful_set: &StatefulSet) -> bool {
    let status = stateful_set.status.as_ref();
    status.is_some_and(|status| status.ready_replicas.unwrap_or(0) > 0)
}

/// Returns why it does not, in the words of whoever knows best.
#[must_use]
pub fn why_database_not_ready(stateful_set: &StatefulSet, pods: &[Pod]) -> String {
    let name = stateful_set.name_any();
    pod_trouble(pods)
        .or_else(|| pods.iter().find_map(ending))
        .unwrap_or_else(|| format!("the pod of StatefulSet {name} is not ready yet"))
}

/// Returns a pod of a `StatefulSet` that cannot start and is of an older template than the present
/// one. The `StatefulSet` itself waits for it for ever (kubernetes/kubernetes#67250), so a template
/// that was corrected would never get its turn. A pod whose containers run is left alone, however
/// long it takes: it may be replaying its log.
#[must_use]
pub fn in_the_way<'a>(stateful_set: &StatefulSet, pods: &'a [Pod]) -> Option<&'a Pod> {
    let status = stateful_set.status.as_ref()?;
    if status.observed_generation != stateful_set.metadata.generation {
        return None;
    }
    let present = status.update_revision.as_ref()?;
    pods.iter().find(|pod| {
        let revision = pod.labels().get(REVISION_LABEL);
        revision.is_some_and(|revision| revision != present)
            && pod.metadata.deletion_timestamp.is_none()
            && (scheduling_trouble(pod).is_some() || waits_in_vain(pod))
    })
}

/// Returns whether a container waits for what does not come by itself.
fn waits_in_vain(pod: &Pod) -> bool {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    let waiting = statuses.into_iter().flatten().filter_map(|container| {
        let state = container.state.as_ref()?;
        state.waiting.as_ref()?.reason.as_deref()
    });
    let mut reasons = waiting.filter(|reason| !ORDINARY.contains(reason));
    reasons.next().is_some()
}

/// Returns the condition of this type that a Job has, `Complete` or `Failed` once it has ended.
#[must_use]
pub fn job_condition<'a>(job: &'a Job, type_: &str) -> Option<&'a JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Returns why a Job does not get on, in the words of whoever knows best.
#[must_use]
pub fn why_job_fails(pods: &[Pod]) -> Option<String> {
    pod_trouble(pods)
}

fn pod_trouble(pods: &[Pod]) -> Option<String> {
    pods.iter()
        .find_map(container_trouble)
        .or_else(|| pods.iter().find_map(scheduling_trouble))
}

fn container_trouble(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let first = status.init_container_statuses.iter().flatten();
    let mut statuses = first.chain(status.container_statuses.iter().flatten());
    let told = statuses.find_map(trouble)?;
    Some(format!("pod {}: {told}", pod.name_any()))
}

fn trouble(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref();
    let ended = state
        .and_then(|state| state.terminated.as_ref())
        .or_else(|| {
            container
                .last_state
                .as_ref()
                .and_then(|last| last.terminated.as_ref())
        });
    let waiting = state.and_then(|state| state.waiting.as_ref());
    // Pulling and creating are the ordinary course.
    let stuck = waiting.and_then(|waiting| waiting.reason.as_deref());
    let stuck = stuck.filter(|reason| !ORDINARY.contains(reason));
    if let Some(ended) = ended.filter(|ended| ended.exit_code != 0) {
        return Some(format!(
            "container {} ended with code {}: {}",
            container.name,
            ended.exit_code,
            why_ended(ended)
        ));
    }
    let message = waiting
        .and_then(|waiting| waiting.message.as_deref())
        .unwrap_or_default();
    stuck.map(|reason| {
        format!(
            "container {} is waiting: {reason}: {message}",
            container.name
        )
    })
}

/// Returns the reason of an end: where the container ended by itself, the last lines that it wrote for
/// people. The message has the end of the whole log (`FallbackToLogsOnError`).
fn why_ended(ended: &ContainerStateTerminated) -> String {
    let reason = ended.reason.as_deref().unwrap_or(NO_REASON);
    if KILLED.contains(&ended.exit_code) {
        let why = if reason == NO_REASON {
            "killed"
        } else {
            reason
        };
        return why.to_owned();
    }
    let message = ended.message.as_deref().unwrap_or_default();
    let lines: Vec<_> = message
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !is_of_the_log(line))
        .collect();
    match lines[lines.len().saturating_sub(LAST_LINES)..] {
        [] => reason.to_owned(),
        ref last => last.join("; "),
    }
}

/// Returns whether one of our programs wrote this line to its log: as JSON, or as text that begins
/// with the time.
fn is_of_the_log(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    line.starts_with('{') || first.parse::<jiff::Timestamp>().is_ok()
}

fn scheduling_trouble(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions
        .iter()
        .find(|condition| condition.type_ == "PodScheduled")?;
    let message = scheduled
        .message
        .as_deref()
        .filter(|_| scheduled.status == "False")?;
    let pod = pod.name_any();
    let message = message.trim_end_matches('.');
    if NO_NODE.iter().any(|words| message.contains(words)) {
        return Some(format!(
            "pod {pod}: {message}; set spec.server.nodeSelector, tolerations, affinity, or the requests \
             of the pod's resources, to what a node has"
        ));
    }
    Some(format!("pod {pod}: {message}"))
}

/// Two pods never run side by side, so a new one waits for the old one.
fn ending(pod: &Pod) -> Option<String> {
    pod.metadata.deletion_timestamp.as_ref()?;
    Some(format!(
        "pod {} is terminating; the next one starts afterwards",
        pod.name_any()
    ))
}

fn deployment_trouble(deployment: &Deployment) -> Option<String> {
    let conditions = deployment.status.as_ref()?.conditions.as_ref()?;
    let told = conditions
        .iter()
        .find(|condition| match condition.type_.as_str() {
            "ReplicaFailure" => condition.status == "True",
            "Progressing" => condition.status == "False",
            _ => false,
        })?;
    Some(format!(
        "Deployment {}: {}",
        deployment.name_any(),
        told.message.as_deref()?
    ))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "status": status})).unwrap()
    }

    fn container(state: &Value) -> Value {
        let mut status = json!({"name": "server", "image": "", "imageID": "", "ready": false, "restartCount": 1});
        status
            .as_object_mut()
            .unwrap()
            .extend(state.as_object().unwrap().clone());
        json!({"containerStatuses": [status]})
    }

    #[rstest]
    #[case::crash(
        container(&json!({
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
            "lastState": {"terminated": {"exitCode": 1, "message": "cannot open the database\n"}},
        })),
        "pod p: container server ended with code 1: cannot open the database"
    )]
    #[case::crash_after_others_of_its_log(
        container(&json!({"lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message":
            "{\"level\":\"INFO\",\"message\":\"gate moved\"}\nreports-server: cannot open the database\n"}}})),
        "pod p: container server ended with code 1: reports-server: cannot open the database"
    )]
    #[case::crash_after_others_of_its_log_as_text(
        container(&json!({"lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message":
            "2026-11-28T16:23:31.915016Z  INFO server: gate moved\nreports-server: cannot open the database\n"}}})),
        "pod p: container server ended with code 1: reports-server: cannot open the database"
    )]
    #[case::database(
        container(&json!({"lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message":
            "LOG:  a\nLOG:  b\nLOG:  c\nLOG:  d\nLOG:  unrecognized configuration parameter \"a\"\n\
             FATAL:  configuration file contains errors\nLOG:  database system is shut down\n"}}})),
        "pod p: container server ended with code 1: LOG:  b; LOG:  c; LOG:  d; LOG:  unrecognized configuration \
         parameter \"a\"; FATAL:  configuration file contains errors; LOG:  database system is shut down"
    )]
    #[case::out_of_memory(
        container(&json!({"lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message":
            "{\"level\":\"INFO\",\"message\":\"gate moved\"}\n"}}})),
        "pod p: container server ended with code 137: OOMKilled"
    )]
    #[case::killed(
        container(&json!({"lastState": {"terminated": {"exitCode": 137, "reason": "Error", "message":
            "{\"level\":\"INFO\",\"message\":\"gate moved\"}\n"}}})),
        "pod p: container server ended with code 137: killed"
    )]
    #[case::silent(
        container(&json!({"lastState": {"terminated": {"exitCode": 2, "reason": "Error"}}})),
        "pod p: container server ended with code 2: Error"
    )]
    #[case::image(
        container(&json!({"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such"}}})),
        "pod p: container server is waiting: ImagePullBackOff: no such"
    )]
    #[case::architecture(
        container(&json!({
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
            "lastState": {"terminated": {"exitCode": 255, "reason": "Error", "message":
                "exec /reports-server: exec format error"}},
        })),
        "pod p: container server ended with code 255: exec /reports-server: exec format error"
    )]
    #[case::node(
        json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "no node"}]}),
        "pod p: no node"
    )]
    #[case::no_such_node(
        json!({"conditions": [{"type": "PodScheduled", "status": "False", "message":
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."}]}),
        "pod p: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector; set \
         spec.server.nodeSelector, tolerations, affinity, or the requests of the pod's resources, to \
         what a node has"
    )]
    #[case::quota(json!({}), "Deployment d: exceeded quota")]
    #[case::starting(
        container(&json!({"state": {"waiting": {"reason": "ContainerCreating"}}})),
        "Deployment d: exceeded quota"
    )]
    fn the_one_who_knows_best_is_quoted(#[case] status: Value, #[case] expected: &str) {
        let deployment = serde_json::from_value(json!({
            "metadata": {"name": "d"},
            "status": {"conditions": [
                {"type": "Available", "status": "False", "message": "minimum"},
                {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"},
            ]},
        }))
        .unwrap();
        assert_eq!(why_not_ready(&deployment, &[pod(&status)]), expected);
    }

    #[rstest]
    #[case::old_and_stuck("old", json!({"state": {"waiting": {"reason": "ImagePullBackOff"}}}), true)]
    #[case::crashing("old", json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}}), true)]
    #[case::replaying("old", json!({"state": {"running": {}},
        "lastState": {"terminated": {"exitCode": 1}}}), false)]
    #[case::starting("old", json!({"state": {"waiting": {"reason": "ContainerCreating"}}}), false)]
    #[case::present("new", json!({"state": {"waiting": {"reason": "ImagePullBackOff"}}}), false)]
    fn only_a_pod_of_an_old_template_that_cannot_start_is_in_the_way(
        #[case] revision: &str,
        #[case] state: Value,
        #[case] expected: bool,
    ) {
        let stateful_set = |generation: i64| {
            serde_json::from_value(json!({
                "metadata": {"name": "s", "generation": generation},
                "status": {"replicas": 1, "observedGeneration": 2, "updateRevision": "new"},
            }))
            .unwrap()
        };
        let mut pod = pod(&container(&state));
        pod.metadata.labels = Some([(REVISION_LABEL.to_owned(), revision.to_owned())].into());
        let pods = std::slice::from_ref(&pod);
        assert_eq!(in_the_way(&stateful_set(2), pods).is_some(), expected);
        // What is not looked at yet may have another template still.
        assert!(in_the_way(&stateful_set(3), pods).is_none());
        let mut ending = pod.clone();
        ending.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert!(in_the_way(&stateful_set(2), &[ending]).is_none());
    }

    #[test]
    fn a_pod_that_has_to_end_first_is_named() {
        let deployment = serde_json::from_value(json!({"metadata": {"name": "d"}})).unwrap();
        let mut old = pod(&json!({}));
        let told = |pod: &Pod| why_not_ready(&deployment, std::slice::from_ref(pod));
        assert_eq!(told(&old), "the pods of Deployment d are not ready yet");
        old.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(
            told(&old),
            "pod p is terminating; the next one starts afterwards"
        );
    }

    #[rstest]
    #[case::rolling(2, json!({"observedGeneration": 2, "updatedReplicas": 1, "availableReplicas": 2}), true)]
    #[case::one_lost(2, json!({"observedGeneration": 2, "updatedReplicas": 2, "availableReplicas": 1}), true)]
    #[case::none(2, json!({"observedGeneration": 2, "updatedReplicas": 2}), false)]
    #[case::only_an_old_one(1, json!({"observedGeneration": 1, "updatedReplicas": 1,
        "availableReplicas": 1}), false)]
    fn of_several_one_is_enough_to_serve(
        #[case] replicas: i32,
        #[case] status: Value,
        #[case] expected: bool,
    ) {
        let deployment = serde_json::from_value(json!({
            "metadata": {"name": "d", "generation": 2},
            "spec": {"replicas": replicas, "selector": {}, "template": {}},
            "status": status,
        }))
        .unwrap();
        assert_eq!(is_serving(&deployment), expected);
        let away = status.get("availableReplicas").is_none();
        assert_eq!(is_away(&deployment), away);
    }

    #[rstest]
    #[case("--database=/var/lib/reports-server/reports.db", true)]
    #[case("--database-dir=/etc/reports-server/database", false)]
    fn an_embedded_database_is_known_by_its_flag(#[case] arg: &str, #[case] expected: bool) {
        let deployment = serde_json::from_value(json!({
            "metadata": {"name": "d"},
            "spec": {"selector": {}, "template": {"spec": {"containers": [
                {"name": "server", "args": ["--log-format=json", arg]}]}}},
        }))
        .unwrap();
        assert_eq!(is_embedded(&deployment), expected);
    }

    #[rstest]
    #[case(json!({"args": ["--database=/f", "--move-database-dir=/m"]}), true)]
    #[case(json!({"env": [{"name": "REPORTS_SERVER_MOVE_DIR", "value": "/m"}]}), true)]
    #[case(json!({"args": ["--database-dir=/d"], "env": [{"name": "OTHER"}]}), false)]
    fn where_to_move_is_heard_by_flag_or_variable(#[case] more: Value, #[case] expected: bool) {
        let mut container = json!({"name": "server"});
        container
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let template = json!({"spec": {"containers": [container]}});
        assert_eq!(
            hears_of_moves(&serde_json::from_value(template).unwrap()),
            expected
        );
    }

    #[rstest]
    #[case(json!({"observedGeneration": 2, "updatedReplicas": 1, "availableReplicas": 1}), true)]
    #[case::old_template(json!({"observedGeneration": 1, "updatedReplicas": 1,
        "availableReplicas": 1}), false)]
    #[case::old_pod(json!({"observedGeneration": 2, "availableReplicas": 1}), false)]
    #[case::nothing(Value::Null, false)]
    fn only_pods_of_the_present_template_count(#[case] status: Value, #[case] expected: bool) {
        let deployment = serde_json::from_value(json!({
            "metadata": {"name": "d", "generation": 2},
            "spec": {"replicas": 1, "selector": {}, "template": {}},
            "status": status,
        }))
        .unwrap();
        assert_eq!(is_ready(&deployment), expected);
    }
}
